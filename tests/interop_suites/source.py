"""The source distribution of a suite, fetched from PyPI and unpacked."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

from interop_suites.suite import Suite


def unpacked(suite: Suite, folder: Path) -> Path:
    """The folder of the suite's distribution; it is fetched when it is not there.

    Raises:
        subprocess.CalledProcessError: pip could not fetch it.
    """
    target = folder / f"{suite.distribution}-{suite.version}"
    if target.exists():
        return target
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"),
            *("--no-binary", ":all:", "--no-deps", "--no-build-isolation"),
            *("--dest", str(folder), f"{suite.distribution}=={suite.version}"),
        ],
        check=True,
    )
    with tarfile.open(target.with_name(f"{target.name}.tar.gz")) as archive:
        archive.extractall(folder, filter="data")
    return target
