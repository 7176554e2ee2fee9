"""What was read back is found again, until so much else was read."""

from unit.log_backend.log_records import batch

from log_backend.loaded_pieces import PIECES_MAX, LoadedPieces
from log_backend.record_batch import RecordBatch


def piece(first: int) -> list[RecordBatch]:
    """Offsets first to first + 2, and first + 5 to first + 7: between them nothing is stored."""
    return [batch([b""] * 3, first), batch([b""] * 3, first + 5)]


def test_a_piece_holds_all_from_the_offset_it_was_read_for_to_its_end() -> None:
    pieces = LoadedPieces(PIECES_MAX)
    one, two = piece(10)
    pieces.add(7, [one, two])
    found = {offset: pieces.find(offset) for offset in (6, 7, 10, 12, 13, 17, 18)}
    assert found == {6: None, 7: one, 10: one, 12: one, 13: two, 17: two, 18: None}
    pieces.clear()
    assert pieces.find(10) is None


def test_nothing_read_is_nothing_known() -> None:
    pieces = LoadedPieces(PIECES_MAX)
    pieces.add(7, [])
    assert pieces.find(7) is None


def test_the_piece_that_was_not_used_for_longest_goes_first() -> None:
    pieces = LoadedPieces(PIECES_MAX)
    for number in range(PIECES_MAX):
        pieces.add(number * 100, piece(number * 100))
    assert pieces.find(0) is not None
    pieces.add(10_000, piece(10_000))
    assert pieces.find(0) is not None
    assert pieces.find(100) is None
    assert all(pieces.find(number * 100) for number in range(2, PIECES_MAX))
    assert len(pieces._pieces) == PIECES_MAX


def test_who_reads_on_needs_one_piece() -> None:
    pieces = LoadedPieces(PIECES_MAX)
    pieces.add(500, piece(500))
    for first in range(0, 80, 8):
        pieces.add(first, piece(first))
        assert pieces.find(first) is not None
        assert pieces.find(first - 1) is None
    assert pieces.find(500) is not None
