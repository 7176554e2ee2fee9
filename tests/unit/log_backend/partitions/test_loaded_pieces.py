"""What was read back is found again, until so much else was read."""

from unit.log_backend.log_records import batch

from routelog.log_backend.partitions.loaded_pieces import KEPT_MIN, LoadedPieces, PieceBudget
from routelog.log_backend.records.record_batch import RecordBatch


def piece(first: int) -> list[RecordBatch]:
    """Offsets first to first + 2, and first + 5 to first + 7: between them nothing is stored."""
    return [batch([b""] * 3, first), batch([b""] * 3, first + 5)]


def size_of(batches: list[RecordBatch]) -> int:
    return sum(each.records.batch_bytes for each in batches)


def test_a_piece_holds_all_from_the_offset_it_was_read_for_to_its_end() -> None:
    pieces = LoadedPieces(PieceBudget(1 << 20))
    one, two = piece(10)
    pieces.add(7, [one, two])
    found = {offset: pieces.find(offset) for offset in (6, 7, 10, 12, 13, 17, 18)}
    assert found == {6: None, 7: one, 10: one, 12: one, 13: two, 17: two, 18: None}
    pieces.clear()
    assert pieces.find(10) is None


def test_nothing_read_is_nothing_known() -> None:
    pieces = LoadedPieces(PieceBudget(1 << 20))
    pieces.add(7, [])
    assert pieces.find(7) is None


def test_the_piece_that_was_used_longest_ago_goes_first_whosever_it_is() -> None:
    budget = PieceBudget(10 * size_of(piece(0)))
    one, other = LoadedPieces(budget), LoadedPieces(budget)
    for first in range(0, 500, 100):
        one.add(first, piece(first))
        other.add(first, piece(first))
    assert one.find(0) is not None
    other.add(10_000, piece(10_000))
    assert (one.find(0) is None, other.find(0) is None) == (False, True)
    other.add(20_000, piece(20_000))
    assert one.find(100) is None
    assert budget.bytes == 10 * size_of(piece(0))
    other.clear()
    assert budget.bytes == 4 * size_of(piece(0))


def test_the_last_pieces_stay_however_large_they_are() -> None:
    budget = PieceBudget(1)
    pieces = [LoadedPieces(budget) for _ in range(KEPT_MIN + 1)]
    for each in pieces:
        each.add(0, piece(0))
    assert [each.find(0) is not None for each in pieces] == [False] + [True] * KEPT_MIN
    assert budget.bytes == KEPT_MIN * size_of(piece(0))


def test_who_reads_on_needs_one_piece() -> None:
    pieces = LoadedPieces(PieceBudget(1 << 20))
    pieces.add(500, piece(500))
    for first in range(0, 80, 8):
        pieces.add(first, piece(first))
        assert pieces.find(first) is not None
        assert pieces.find(first - 1) is None
    assert pieces.find(500) is not None
