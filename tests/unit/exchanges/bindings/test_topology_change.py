"""What a call changed."""

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.bindings.topology_change import NO_CHANGE, TopologyChange


def test_a_change_is_true_when_anything_came_or_went() -> None:
    assert not NO_CHANGE
    exchange, binding = Exchange("x", "direct"), Binding("x", "q", "queue", "k")
    assert TopologyChange(exchanges_declared=(exchange,))
    assert TopologyChange(exchanges_deleted=(exchange,))
    assert TopologyChange(bindings_added=(binding,))
    assert TopologyChange(bindings_removed=(binding,))
