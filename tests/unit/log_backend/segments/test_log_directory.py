from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routelog.log_backend.segments.log_directory import (
    NAME_BYTES_MAX,
    base_offsets,
    directory_name,
    partition_directory,
    segment_path,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=100)


@given(name=NAMES)
def test_a_name_is_one_plain_file_name(name: str) -> None:
    found = directory_name(name)
    assert found not in ("", ".", "..")
    assert not found.startswith(".")
    assert set(found) <= set("-_.~%") | {c for c in map(chr, range(128)) if c.isalnum()}
    assert len(f"{found}-4294967295".encode()) <= 255


@given(one=NAMES, other=NAMES)
def test_different_names_get_different_directories(one: str, other: str) -> None:
    assert (directory_name(one) == directory_name(other)) == (one == other)


@pytest.mark.parametrize("length", [NAME_BYTES_MAX, NAME_BYTES_MAX + 1, 255])
def test_nobody_can_choose_a_name_that_is_the_cut_form_of_another(length: int) -> None:
    long = "a" * length
    assert directory_name(directory_name(long)) != directory_name(long) or length <= NAME_BYTES_MAX


def test_long_names_that_differ_at_the_end_differ() -> None:
    assert directory_name("x" * 250 + "1") != directory_name("x" * 250 + "2")


@pytest.mark.parametrize("name", ["..", ".", "../../etc/passwd", "/", "a/b", "", "%2F", "~", "%7E"])
def test_a_hostile_name_stays_below_the_logs(name: str) -> None:
    logs = Path("/data/logs")
    directory = partition_directory(logs, name, name, 0)
    assert directory.parent.parent == logs
    assert ".." not in directory.parts


def test_queues_and_their_partitions_do_not_share_directories() -> None:
    logs = Path("/logs")
    names = [("a", 0), ("a", 1), ("a-0", 1), ("a-0", 0), ("a-1", 0), ("a-", 10)]
    directories = {partition_directory(logs, "v", queue, index) for queue, index in names}
    assert len(directories) == len(names)


def test_segments_are_found_by_their_names() -> None:
    path = segment_path(Path("/d"), 368_769)
    assert path == Path("/d/00000000000000368769.log")
    names = [path.name, "00000000000000000007.log", "00000000000000000007.index", "PARTITION"]
    names += ["7.log", "0000000000000000000x.log", ".log", "000000000000000000071.log"]
    assert base_offsets(names) == [7, 368_769]
