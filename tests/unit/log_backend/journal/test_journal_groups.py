"""What gathers for the journal."""

import pytest
from unit.log_backend.log_records import records

from routelog.log_backend.journal.journal_block import HandedOut, decode_entries
from routelog.log_backend.journal.journal_entry import (
    BATCH_AGAIN_BYTES,
    ENTRY_HEADER_BYTES,
    JournalEntry,
)
from routelog.log_backend.journal.journal_groups import COMMIT_BYTES_MAX, JournalGroups
from routelog.log_backend.records.record_batch import RecordBatch, Records


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


def test_a_journal_that_only_follows_takes_nothing() -> None:
    groups = JournalGroups(lambda waited: None, lambda pressed: None)
    with pytest.raises(RuntimeError, match=r"has not started"):
        append(groups, 1)
    for call in (groups.cut_point, groups.let_go, lambda: groups.take_back([])):
        with pytest.raises(RuntimeError, match=r"has not started"):
            call()


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
        begin = groups.cut_point()
        append(groups, size)
        append(groups, 40)
        steps.append((begin, groups.cut_point()))
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


def test_the_records_of_many_queues_stand_in_a_block_once(groups: JournalGroups) -> None:
    content = records([b"x" * 1_000])
    for partition in range(100):
        publish(groups, content, partition, base_offset=7 * partition)
    group = groups.first
    first = len(JournalEntry(0, RecordBatch(content, 0, 1)).encode())
    assert group.bytes == groups.pending_bytes == first + 99 * BATCH_AGAIN_BYTES
    assert group.count == 100
    found = decode_entries(payload(groups))
    assert [(each.partition, each.change.base_offset) for each in found] == [
        (partition, 7 * partition) for partition in range(100)
    ]
    assert len({id(each.change.records) for each in found}) == 1


def test_large_records_of_many_queues_are_one_block(groups: JournalGroups) -> None:
    content = records([b"x" * (COMMIT_BYTES_MAX - 1_000)])
    assert [publish(groups, content, partition) for partition in range(10)] == [1] * 10
    assert publish(groups, records([b"x" * 1_000]), 1) == 2


def test_each_block_has_the_records_itself(groups: JournalGroups) -> None:
    content = records([b"x" * 1_000])
    publish(groups, content, 1)
    append(groups, COMMIT_BYTES_MAX - groups.first.bytes - ENTRY_HEADER_BYTES)
    assert [publish(groups, content, partition) for partition in (2, 3)] == [2, 2]
    groups.promise(groups.take_first().position)
    found = decode_entries(payload(groups))
    assert [each.partition for each in found] == [2, 3]
    groups.promise(groups.take_first().position)
    assert groups.pending_bytes == 0


def test_equal_records_of_two_publishes_stand_twice(groups: JournalGroups) -> None:
    for partition in (1, 2):
        publish(groups, records([b"x" * 1_000]), partition)
    assert payload(groups).count(b"x" * 1_000) == 2


def test_a_batch_has_the_records_of_the_last_one_whatever_stands_between(
    groups: JournalGroups,
) -> None:
    contents = [records([b"%d" % number]) for number in (0, 1)]
    groups.append(JournalEntry(1, RecordBatch(contents[0], 0, 1)), True, True)
    groups.append(JournalEntry(1, RecordBatch(contents[1], 1, 1)), True, True)
    publish(groups, contents[0], 2)
    groups.append(JournalEntry(2, HandedOut(0, 1)), False, True)
    publish(groups, contents[0], 3)
    found = [each.change for each in decode_entries(payload(groups))]
    batches = [each for each in found if isinstance(each, RecordBatch)]
    assert [each.records.body(0) for each in batches] == [b"0", b"1", b"0", b"0"]


def hidden_from(groups: JournalGroups, partition: int) -> int:
    group = groups.hiding(partition)
    assert group is not None
    return group.first_offsets[partition]


def publish(groups: JournalGroups, content: Records, partition: int, base_offset: int = 0) -> int:
    position: int = groups.append_batch(partition, RecordBatch(content, base_offset, 1), True, True)
    return position


def payload(groups: JournalGroups) -> bytes:
    return b"".join(groups.first.content.buffers())


def append(groups: JournalGroups, size: int) -> int:
    position: int = groups.append(JournalEntry(1, Blob(size)), True, True)
    return position
