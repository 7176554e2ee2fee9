"""What gathers for the journal."""

import pytest

from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_groups import COMMIT_BYTES_MAX, JournalGroups


class Blob:
    """A change of any size."""

    kind = 2

    def __init__(self, size: int) -> None:
        self._size = size

    def encode(self) -> bytes:
        return bytes(self._size)


@pytest.fixture
def groups() -> JournalGroups:
    groups = JournalGroups(lambda waited: None, lambda pressed: None)
    groups.start(1)
    return groups


def test_a_block_that_would_grow_too_large_is_followed_by_another(groups: JournalGroups) -> None:
    positions = [append(groups, COMMIT_BYTES_MAX // 2) for _ in range(3)]
    assert positions == [1, 2, 3]


def test_what_is_held_together_is_one_block_however_large(groups: JournalGroups) -> None:
    append(groups, COMMIT_BYTES_MAX - 100)
    with groups.together():
        assert append(groups, COMMIT_BYTES_MAX) == 1
        with groups.together():
            assert append(groups, COMMIT_BYTES_MAX) == 1
        assert append(groups, COMMIT_BYTES_MAX) == 1
    assert append(groups, 8) == 2
    assert groups.first.bytes > 3 * COMMIT_BYTES_MAX


def test_what_some_steps_appended_is_taken_back_and_counts_no_more(groups: JournalGroups) -> None:
    append(groups, 8)
    steps = []
    for size in (16, 9_000):
        begin = groups.end
        append(groups, size)
        append(groups, 40)
        steps.append((begin, groups.end))
        append(groups, 24)
    groups.take_back(steps)
    (group,) = [groups.first]
    assert (group.count, group.bytes) == (3, 3 * 24 + 8 + 2 * 24)
    assert groups.pending_bytes == group.bytes
    assert len(group.block(1, 2, 1, 0, 0, 1, 0)) == 4_096


def test_what_is_hidden_waits_for_the_first_block_that_has_something_of_it(
    groups: JournalGroups,
) -> None:
    for position, offset in ((1, 5), (2, 9)):
        assert append(groups, COMMIT_BYTES_MAX) == position
        groups.hide(7, offset)
    append(groups, COMMIT_BYTES_MAX)
    assert groups.hiding(8) is None
    assert hidden_from(groups, 7) == 5
    first = groups.take_first()
    assert hidden_from(groups, 7) == 5, "it is being written"
    groups.put_back(first)
    assert hidden_from(groups, 7) == 5, "there was no room"
    groups.promise(groups.take_first().position)
    assert (groups.promised, hidden_from(groups, 7)) == (1, 9)
    groups.promise(groups.take_first().position)
    assert groups.hiding(7) is None


def test_who_waits_for_an_entry_of_others_hastens_it() -> None:
    woken: list[bool] = []
    groups = JournalGroups(woken.append, lambda pressed: None)
    groups.start(1)
    groups.append(JournalEntry(1, Blob(8)), False, True)
    groups.hide(1, 0)
    group = groups.hiding(1)
    assert group is not None
    for _ in range(2):
        groups.hasten(group)
    assert woken == [False, True]
    assert group.waited


def hidden_from(groups: JournalGroups, partition: int) -> int:
    group = groups.hiding(partition)
    assert group is not None
    return group.first_offsets[partition]


def append(groups: JournalGroups, size: int) -> int:
    position: int = groups.append(JournalEntry(1, Blob(size)), True, True)
    return position
