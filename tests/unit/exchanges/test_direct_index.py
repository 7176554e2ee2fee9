"""The direct exchange's index."""

from exchanges.binding import Binding
from exchanges.direct_index import DirectIndex

FIRST = Binding("x", "q1", "queue", "k")
SECOND = Binding("x", "q2", "queue", "k")
OTHER = Binding("x", "q1", "queue", "K")


def test_a_key_matches_the_bindings_that_are_written_like_it() -> None:
    index = DirectIndex()
    for binding in (FIRST, SECOND, OTHER):
        index.add(binding)
    assert list(index.match(b"k", {})) == [FIRST, SECOND]
    assert list(index.match(b"K", {})) == [OTHER]
    assert list(index.match(b"", {})) == []


def test_a_removed_binding_matches_no_more() -> None:
    index = DirectIndex()
    index.add(FIRST)
    index.add(SECOND)
    index.remove(FIRST)
    assert list(index.match(b"k", {})) == [SECOND]
    index.remove(SECOND)
    assert list(index.match(b"k", {})) == []


def test_keys_compare_as_bytes() -> None:
    index = DirectIndex()
    binding = Binding("x", "q", "queue", "schlüssel")
    index.add(binding)
    assert list(index.match("schlüssel".encode(), {})) == [binding]
    assert list(index.match(b"schl\xfcssel", {})) == []
