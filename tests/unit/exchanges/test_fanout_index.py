"""The fanout exchange's index."""

from exchanges.binding import Binding
from exchanges.fanout_index import FanoutIndex
from exchanges.message import BARE_MESSAGE


def test_every_binding_matches_every_key_until_it_is_removed() -> None:
    index = FanoutIndex()
    first, second = Binding("x", "q1", "queue", "a"), Binding("x", "q2", "queue", "b")
    index.add(first)
    index.add(second)
    assert list(index.match(b"anything", BARE_MESSAGE)) == [first, second]
    index.remove(first)
    assert list(index.match(b"a", BARE_MESSAGE)) == [second]
