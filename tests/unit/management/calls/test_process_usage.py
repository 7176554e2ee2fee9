from __future__ import annotations

import os
from pathlib import Path

import pytest

from routelog.management.calls.process_usage import process_usage

MACHINE_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """As the system shows a process: 3 pages of memory, 7 threads, 2 files."""
    own = tmp_path / "proc" / "self"
    (own / "fd").mkdir(parents=True)
    for file in ("0", "1"):
        (own / "fd" / file).touch()
    (own / "statm").write_text("100 3 2 1 0 50 0\n")
    (own / "status").write_text("Name:\troutelog\nThreads:\t7\nSigQ:\t0/95\n")
    (own / "cgroup").write_text("1:memory:/old\n0::/system.slice/routelog.service\n")
    kernel = tmp_path / "proc" / "sys" / "kernel"
    kernel.mkdir(parents=True)
    (kernel / "threads-max").write_text("12345\n")
    return tmp_path / "proc"


def test_a_process_is_seen_as_the_system_shows_it(proc, tmp_path, monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda which: (-1, -1))
    usage = process_usage(proc, tmp_path / "none")
    assert usage is not None
    assert usage.memory_bytes == 3 * os.sysconf("SC_PAGE_SIZE")
    assert usage.memory_bytes_max == MACHINE_BYTES
    assert (usage.threads, usage.threads_max, usage.files) == (7, 12345, 2)


def test_a_limit_of_the_user_comes_before_that_of_the_system(proc, tmp_path, monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda which: (500, 600))
    usage = process_usage(proc, tmp_path / "none")
    assert usage is not None
    assert usage.threads_max == 500


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"system.slice/routelog.service": "1048576"}, 1048576),
        ({"system.slice": "2097152", "system.slice/routelog.service": "max"}, 2097152),
        ({"": "4096", "system.slice": "8192"}, 4096),
        ({"system.slice/another.service": "1"}, MACHINE_BYTES),
        ({"system.slice": f"{MACHINE_BYTES * 2}"}, MACHINE_BYTES),
        ({"system.slice": "what"}, MACHINE_BYTES),
    ],
)
def test_the_narrowest_control_group_limits_memory(proc, tmp_path, limits, expected):
    groups = tmp_path / "groups"
    for name, limit in limits.items():
        (groups / name).mkdir(parents=True, exist_ok=True)
        (groups / name / "memory.max").write_text(limit + "\n")
    usage = process_usage(proc, groups)
    assert usage is not None
    assert usage.memory_bytes_max == expected


def test_nothing_is_said_where_the_system_does_not_tell(tmp_path):
    assert process_usage(tmp_path / "none", tmp_path / "none") is None
