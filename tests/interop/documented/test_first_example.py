"""What README.md and the page of Spark show first, run as it stands there by one who set up nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BrokerFactory

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 600  # a JVM starts in 10 s, or in a minute and more beside others


def first_example(page: str) -> str:
    """The first block of Python of a page."""
    found = re.search(
        r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1]


def run(program: str, folder: Path, **environment: str) -> str:
    """What a program prints, as its own process in a folder."""
    inherited = {name: text for name, text in os.environ.items() if "PYSPARK" not in name}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={
            **inherited,
            "PYTHONPATH": str(ROOT / "src"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_spark_reads_what_the_readme_published_though_path_has_another_python(
    fresh_broker: BrokerFactory, tmp_path: Path
) -> None:
    broker = fresh_broker(ROUTELOG_FLUSH_SECONDS="0.1")
    documented = first_example("README.md")
    address = "amqp://guest:guest@127.0.0.1:5672/%2F"
    assert address in documented
    assert run(documented.replace(address, f"{broker.url}%2F"), tmp_path) == "b'42'\n"
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')  # without what is installed
    bare.chmod(0o755)
    (tmp_path / "data").symlink_to(broker.data_dir)
    shown = run(
        first_example("docs/spark/spark.md"), tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}"
    )
    assert re.search(r"\|\s*orders\|\s*1\|", shown), shown
