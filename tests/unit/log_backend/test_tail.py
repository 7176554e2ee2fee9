import random

from unit.log_backend.log_records import batch

from log_backend.record_batch import RecordBatch
from log_backend.tail import Tail


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
            assert tail.drop_first() == model.pop(0).records.batch_bytes
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
    tail.drop_first()
    found = [tail.find_time(time) for time in (0, 100, 101, 400, 401)]
    assert found == [batches[1], batches[1], batches[2], batches[4], None]
