import random

import pytest
from unit.log_backend.log_records import batch, encoded

from routelog.log_backend.records.checksum import UNLOCKED_BYTES_MIN
from routelog.log_backend.records.gathering import COPIED_BYTES_MAX, Gathering


def written(gathering: Gathering) -> bytes:
    return b"".join(gathering.buffers())


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_pieces_stand_in_order_however_large_they_are(kind: type) -> None:
    chance = random.Random(3)
    sizes = [0, 1, 4_096, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 1, 7, 100_000, 100_000, 0, 5]
    pieces = [chance.randbytes(size) for size in sizes * 3]
    gathering = Gathering()
    for piece in pieces:
        gathering.add(kind(piece))
    assert gathering.bytes == sum(map(len, pieces))
    assert written(gathering) == b"".join(pieces)


def test_many_small_pieces_are_one_buffer() -> None:
    gathering = Gathering()
    for _ in range(1_000):
        gathering.add(b"x" * 100)
    assert [len(each) for each in gathering.buffers()] == [100_000]


def test_a_large_piece_is_not_copied() -> None:
    large = bytes(COPIED_BYTES_MAX + 1)
    gathering = Gathering()
    gathering.add(b"head")
    gathering.add(large)
    assert gathering.buffers()[1] is large


def test_batches_are_gathered_as_they_are_stored() -> None:
    batches = [batch([b"one", b"two"], 5), batch([b"x" * 20_000], 7), batch([b""], 8)]
    gathering = Gathering()
    for each in batches:
        gathering.add_batch(each)
    assert written(gathering) == b"".join(map(encoded, batches))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_all_is_copied_however_much_it_is(kind: type) -> None:
    chance = random.Random(4)
    sizes = [100_000] * 12 + [UNLOCKED_BYTES_MIN - 1, UNLOCKED_BYTES_MIN, 3 * UNLOCKED_BYTES_MIN, 5]
    pieces = [chance.randbytes(size) for size in sizes + [4_000] * 300]  # the last are one buffer
    gathering = Gathering()
    for piece in pieces:
        gathering.add(kind(piece))
    buffer = bytearray(3 + gathering.bytes)
    gathering.copy_to(buffer, 3)
    assert buffer == bytes(3) + b"".join(pieces)


def test_nothing_is_no_buffer() -> None:
    assert Gathering().buffers() == []
    assert Gathering().bytes == 0


def test_more_may_come_behind_what_was_looked_at() -> None:
    gathering = Gathering()
    gathering.add(b"one")
    assert written(gathering) == b"one"
    gathering.add(b"two")
    assert written(gathering) == b"onetwo"


@pytest.mark.parametrize("seed", range(20))
def test_stretches_are_cut_out_wherever_they_begin_and_end(seed: int) -> None:
    chance = random.Random(seed)
    gathering = Gathering()
    for _ in range(30):
        gathering.add(chance.randbytes(chance.choice((0, 1, 50, COPIED_BYTES_MAX + 1, 9_000))))
    whole = written(gathering)
    places = sorted(chance.choices(range(len(whole) + 1), k=2 * chance.randrange(6)))
    stretches = list(zip(places[::2], places[1::2], strict=True))
    gathering.cut(stretches)
    gathering.add(b"behind")
    left = bytearray(whole)
    for first, end in reversed(stretches):
        del left[first:end]
    assert gathering.bytes == len(left) + 6
    buffer = bytearray(gathering.bytes)
    gathering.copy_to(buffer, 0)
    assert buffer == left + b"behind"
