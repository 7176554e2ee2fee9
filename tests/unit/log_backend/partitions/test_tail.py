import random

import pytest
from unit.log_backend.log_records import batch, encoded

from routelog.log_backend.partitions.tail import DROPPED_AT_ONCE, Tail
from routelog.log_backend.records.record_batch import RecordBatch


def at_once(gone: list[RecordBatch]) -> None:
    """So few are not handed over."""
    raise AssertionError


def taken(tail: Tail) -> list[RecordBatch]:
    """All that is unflushed, taken."""
    return tail.take_unflushed(1 << 62, 1 << 30)


def test_an_empty_tail_finds_nothing() -> None:
    tail = Tail()
    assert (len(tail), tail.first, tail.bytes, tail.find(0)) == (0, None, 0, None)


def test_a_batch_is_found_by_each_of_its_offsets_and_by_the_gap_before_it() -> None:
    tail = Tail()
    first, second = batch([b""] * 3, 10), batch([b""] * 2, 20)
    tail.append(first)
    tail.append(second)
    found = {offset: tail.find(offset) for offset in (0, 10, 12, 13, 19, 20, 21, 22)}
    assert found == {
        0: first,
        10: first,
        12: first,
        13: second,
        19: second,
        20: second,
        21: second,
        22: None,
    }


def drop_first(tail: Tail) -> int:
    assert tail.first
    return tail.drop_up_to(tail.first.end_offset, list.clear)


def test_it_agrees_with_a_list() -> None:
    choice = random.Random(3)
    tail, model, next_offset = Tail(), list[RecordBatch](), 0
    for _ in range(3_000):
        if choice.random() < 0.55:
            next_offset += choice.choice((0, 0, 0, 5))
            added = batch([b"x" * choice.randrange(20)] * choice.randint(1, 4), next_offset)
            tail.append(added)
            model.append(added)
            next_offset = added.end_offset
        elif model:
            assert drop_first(tail) == model.pop(0).records.batch_bytes
        assert len(tail) == len(model)
        assert tail.first is (model[0] if model else None)
        assert tail.bytes == sum(each.records.batch_bytes for each in model)
        offset = choice.randint(0, next_offset + 1)
        assert tail.find(offset) is next((each for each in model if each.end_offset > offset), None)


def test_the_first_batch_of_a_time_or_later_is_found() -> None:
    tail = Tail()
    batches = [batch([b""], 10 * number, time=100 * number) for number in range(5)]
    assert tail.find_time(0) is None
    for each in batches:
        tail.append(each)
    drop_first(tail)
    found = [tail.find_time(time) for time in (0, 100, 101, 400, 401)]
    assert found == [batches[1], batches[1], batches[2], batches[4], None]


def test_times_that_go_back_hide_no_batch() -> None:
    tail, times = Tail(), (100, 200, 50, 60, 300)
    batches = [batch([b""], at, time=time) for at, time in enumerate(times)]
    for each in batches:
        tail.append(each)
    found = [tail.find_time(time) for time in (0, 101, 150, 201, 301)]
    assert found == [batches[0], batches[1], batches[1], batches[4], None]


# Flushing


def test_what_is_taken_to_be_flushed_is_unflushed_again_when_that_was_refused() -> None:
    tail = Tail()
    batches = [batch([b"x" * 100], number) for number in range(4)]
    size = batches[0].records.batch_bytes
    for each in batches[:3]:
        tail.append(each)
    assert (tail.is_flushed, tail.unflushed_bytes) == (False, 3 * size)
    assert taken(tail) == batches[:3]
    assert (tail.is_flushed, tail.unflushed_bytes) == (True, 0)
    tail.append(batches[3])
    tail.unflush_from(1)
    assert (tail.is_flushed, tail.unflushed_bytes) == (False, 3 * size)
    assert taken(tail) == batches[1:]


def test_a_part_is_taken_and_the_rest_is_unflushed() -> None:
    tail = Tail()
    batches = [batch([b"x"] * 2, 2 * number) for number in range(5)]
    for each in batches:
        tail.append(each)
    size = batches[0].records.batch_bytes
    assert tail.take_unflushed(100, 2) == batches[:2]
    assert (tail.is_flushed, tail.unflushed_bytes) == (False, 3 * size)
    assert tail.take_unflushed(5, 9) == [batches[2]]  # it begins below, and ends above
    assert tail.take_unflushed(6, 9) == []
    assert taken(tail) == batches[3:]
    assert (tail.is_flushed, tail.unflushed_bytes) == (True, 0)


def test_what_nobody_uses_any_more_is_not_unflushed() -> None:
    tail = Tail()
    tail.append(batch([b"x"], 0))
    assert len(tail.take_all()) == 1
    assert tail.unflushed_bytes == 0


def test_what_is_dropped_is_not_flushed_any_more() -> None:
    tail = Tail()
    for number in range(6):
        tail.append(batch([b""] * 2, 2 * number))
        if number == 3:
            taken(tail)
    size = tail.bytes // 6
    assert tail.drop_up_to(1, at_once) == 0
    assert tail.drop_up_to(4, at_once) == 2 * size
    assert tail.unflushed_bytes == 2 * size
    assert tail.drop_up_to(11, at_once) == 3 * size
    assert (len(tail), tail.unflushed_bytes) == (1, size)
    assert [each.base_offset for each in taken(tail)] == [10]


def test_only_flushed_batches_are_evicted() -> None:
    tail = Tail()
    for number in range(5):
        tail.append(batch([b""], number))
        if number == 2:
            taken(tail)
    size = tail.bytes // 5
    assert tail.evict(1) == size
    assert tail.evict(100 * size) == 2 * size
    assert (len(tail), tail.unflushed_bytes) == (2, 2 * size)


def test_many_are_forgotten_and_added_in_turns() -> None:
    tail, first, end = Tail(), 0, 0
    for _ in range(50):
        for _ in range(40):
            tail.append(batch([b""], end))
            end += 1
        first += 37
        tail.drop_up_to(first, at_once)
        found = [tail.find(offset) for offset in (first, end - 1, end)]
        assert [each and each.base_offset for each in found] == [first, end - 1, None]
        assert len(tail) == end - first


@pytest.mark.parametrize("dropped", [DROPPED_AT_ONCE, DROPPED_AT_ONCE + 1, 299, 300])
@pytest.mark.parametrize("flushed", [0, 10, 250, 300])
def test_very_many_are_forgotten_now_and_freed_by_somebody_else(flushed: int, dropped: int) -> None:
    tail = Tail()
    batches = [batch([b"x"], number) for number in range(305)]
    size = batches[0].records.batch_bytes
    for at, each in enumerate(batches[:300]):
        if at == flushed:
            taken(tail)
        tail.append(each)
    if flushed == 300:
        taken(tail)
    gone: list[RecordBatch | None] = []
    assert tail.drop_up_to(dropped, gone.extend) == dropped * size
    assert tail.bytes == (300 - dropped) * size
    assert tail.unflushed_bytes == (300 - max(dropped, flushed)) * size
    assert len(tail) == 300 - dropped
    assert [each for each in gone if each is not None] == batches[DROPPED_AT_ONCE:dropped]
    for each in batches[300:]:
        tail.append(each)
    assert [tail.find(offset) for offset in (0, 304)] == [batches[dropped], batches[304]]
    assert taken(tail) == batches[max(dropped, flushed) :]


def test_unflushed_batches_are_taken_back_by_their_offsets() -> None:
    tail = Tail()
    batches = [batch([b"x" * offset], offset) for offset in range(8)]
    for each in batches[:3]:
        tail.append(each)
    taken(tail)
    for each in batches[3:]:
        tail.append(each)
    before = tail.bytes
    freed = tail.take_back({3, 5, 6})
    assert freed == before - tail.bytes == sum(len(encoded(batches[at])) for at in (3, 5, 6))
    assert [tail.find(offset) for offset in (2, 3, 5, 7)] == [batches[at] for at in (2, 4, 7, 7)]
    assert taken(tail) == [batches[4], batches[7]]
    assert tail.unflushed_bytes == 0


def test_the_newest_batch_below_an_offset_is_found() -> None:
    tail = Tail()
    assert tail.last_below(9) is None
    for first in (0, 5, 10):
        tail.append(batch([b"x"] * 5, first))
    found = [tail.last_below(end) for end in (0, 1, 5, 6, 11, 99)]
    assert [each and each.base_offset for each in found] == [None, 0, 0, 5, 10, 10]
    drop_first(tail)
    assert tail.last_below(5) is None
