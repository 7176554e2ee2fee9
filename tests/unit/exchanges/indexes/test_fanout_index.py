"""The fanout exchange's index."""

from support.matched_names import matched_names

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.indexes.binding_index import BARE_MESSAGE
from routelog.exchanges.indexes.fanout_index import FanoutIndex


def test_every_binding_matches_every_key_until_it_is_removed() -> None:
    index = FanoutIndex()
    first, second = Binding("x", "q1", "queue", "a"), Binding("x", "q2", "queue", "b")
    index.add(first)
    index.add(second)
    assert matched_names(index.match(b"anything", BARE_MESSAGE)) == ["q1", "q2"]
    index.remove(first)
    assert matched_names(index.match(b"a", BARE_MESSAGE)) == ["q2"]
    index.remove(second)
    assert matched_names(index.match(b"a", BARE_MESSAGE)) == []
