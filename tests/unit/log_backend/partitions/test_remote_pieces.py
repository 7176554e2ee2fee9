"""What of remote storage is kept in memory, and how much is asked for at once."""

import pytest
from unit.log_backend.log_records import batch

from routelog.log_backend.partitions import remote_pieces
from routelog.log_backend.partitions.remote_pieces import (
    KEPT_MIN,
    REQUEST_BYTES,
    REQUEST_BYTES_MIN,
    UNREAD_SECONDS_MAX,
    Piece,
    RemotePieces,
)

MIB = 1024 * 1024


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def add(pieces: RemotePieces, first: int, *, number: int = 1, size: int = 100) -> None:
    """Ten records from an offset on."""
    pieces.add(number, first, first + 10, [batch([bytes(size)] * 10, first)])


def found(pieces: RemotePieces, offset: int, number: int = 1) -> Piece:
    piece = pieces.find(number, offset)
    assert piece is not None
    return piece


def test_a_piece_is_found_by_its_offsets(clock: Clock) -> None:
    pieces = RemotePieces(MIB, clock.monotonic)
    add(pieces, 0)
    add(pieces, 20)
    add(pieces, 0, number=2)
    assert [pieces.find(1, at) is None for at in (0, 9, 10, 19, 20, 29, 30)] == [
        *(False, False, True, True),
        *(False, False, True),
    ]
    pieces.forget(1)
    assert pieces.find(1, 0) is None
    assert found(pieces, 0, 2).end == 10
    pieces.forget(2)
    assert pieces.bytes == 0


def test_the_first_to_read_a_piece_leaves_the_one_before_it(clock: Clock) -> None:
    pieces = RemotePieces(1, clock.monotonic)  # room for KEPT_MIN
    for first in range(0, 10 * KEPT_MIN, 10):
        add(pieces, first)
    assert pieces.use(found(pieces, 20))
    assert not pieces.use(found(pieces, 20))
    assert pieces.use(found(pieces, 30))
    assert [found(pieces, at).is_finished for at in (0, 10, 20, 30)] == [False, True, True, False]
    for first, gone in ((500, 10), (510, 20), (520, 0)):  # finished ones, then the least used
        add(pieces, first)
        assert pieces.find(1, gone) is None
    assert found(pieces, 30)


def test_a_piece_in_which_nobody_reads_any_more_goes(clock: Clock) -> None:
    pieces = RemotePieces(MIB, clock.monotonic)
    add(pieces, 0)
    add(pieces, 10)
    clock.now = UNREAD_SECONDS_MAX / 2
    pieces.use(found(pieces, 0))
    clock.now = UNREAD_SECONDS_MAX
    add(pieces, 20)
    assert pieces.find(1, 10) is None
    assert found(pieces, 0)


def test_requests_are_smaller_with_many_places_so_that_all_fit(clock: Clock) -> None:
    pieces = RemotePieces(64 * MIB, clock.monotonic)
    sizes = []
    for number in range(100):
        sizes.append(pieces.request_bytes)
        if number < 60:
            assert (number + 1) * pieces.request_bytes <= 64 * MIB
        add(pieces, 10 * number, number=number)
    assert sizes[:8] == [REQUEST_BYTES] * 8
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == REQUEST_BYTES_MIN
    assert not pieces.may_read_ahead


def test_what_is_read_ahead_must_have_room(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_pieces, "REQUEST_BYTES_MIN", MIB)
    pieces = RemotePieces(8 * MIB, clock.monotonic)
    for number in range(7):
        assert pieces.may_read_ahead
        add(pieces, 0, number=number)
    assert pieces.may_read_ahead
    add(pieces, 0, number=7)
    assert not pieces.may_read_ahead
