"""The benchmark of fairness sees all its storms through; here they are small, and no time is judged."""

from pathlib import Path

import pytest

from routelog.benchmarks.storms.fairness import main


def test_a_bystander_is_measured_beside_each_storm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(scale=0.001, folder=tmp_path)
    printed = capsys.readouterr().out
    storms = (
        "nothing",
        "declare 20",
        "leave 20",
        "declare and",
        "get the 0 MiB",
        "commit 100",
        "purge them",
        "an x-filter looks at 10,000",
        "an x-stream-filter looks at",
        "1 readers begin",
        "10 operators list,",
    )
    for storm in storms:
        assert storm in printed
    assert not list(tmp_path.iterdir()), "it leaves nothing behind"
