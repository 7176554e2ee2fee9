"""The direct exchange's index."""

from support.matched_names import matched_names

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.indexes.binding_index import BARE_MESSAGE
from routelog.exchanges.indexes.direct_index import DirectIndex

FIRST = Binding("x", "q1", "queue", "k")
SECOND = Binding("x", "q2", "queue", "k")
OTHER = Binding("x", "q1", "queue", "K")


def test_a_key_matches_the_bindings_that_are_written_like_it() -> None:
    index = DirectIndex()
    for binding in (FIRST, SECOND, OTHER):
        index.add(binding)
    assert matched_names(index.match(b"k", BARE_MESSAGE)) == ["q1", "q2"]
    assert list(index.match(b"K", BARE_MESSAGE)) == [OTHER]
    assert list(index.match(b"", BARE_MESSAGE)) == []


def test_a_removed_binding_matches_no_more() -> None:
    index = DirectIndex()
    index.add(FIRST)
    index.add(SECOND)
    index.remove(FIRST)
    assert matched_names(index.match(b"k", BARE_MESSAGE)) == ["q2"]
    index.remove(SECOND)
    assert list(index.match(b"k", BARE_MESSAGE)) == []


def test_keys_compare_as_bytes() -> None:
    index = DirectIndex()
    binding = Binding("x", "q", "queue", "schlüssel")
    index.add(binding)
    assert list(index.match("schlüssel".encode(), BARE_MESSAGE)) == [binding]
    assert list(index.match(b"schl\xfcssel", BARE_MESSAGE)) == []
