"""The graph of exchanges, queues and bindings: cascades and what they cost."""

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.indexes.direct_index import DirectIndex
from routelog.exchanges.topology.binding_graph import (
    DEPARTED_BINDINGS_MAX,
    NO_CHANGE,
    BindingGraph,
    TopologyChange,
)
from routelog.exchanges.topology.graph_nodes import QueueNode


def graph_of(*exchanges: Exchange) -> BindingGraph:
    graph = BindingGraph()
    for exchange in exchanges:
        graph.add_exchange(exchange, DirectIndex())
    graph.queues["q"] = QueueNode(durable=False)
    return graph


def between(source: str, destination: str) -> Binding:
    return Binding(source, destination, "exchange", "k")


def names(exchanges: tuple[Exchange, ...]) -> list[str]:
    return [exchange.name for exchange in exchanges]


def test_a_binding_is_seen_from_both_ends() -> None:
    graph = graph_of(Exchange("x", "direct"))
    binding = Binding("x", "q", "queue", "k")
    assert graph.add_binding(binding).bindings_added == (binding,)
    assert not graph.add_binding(binding)
    assert list(graph.exchanges["x"].outgoing) == [binding]
    assert list(graph.queues["q"].incoming) == [binding]
    assert graph.remove_binding(binding).bindings_removed == (binding,)
    assert not graph.remove_binding(binding)
    assert not graph.exchanges["x"].outgoing
    assert not graph.queues["q"].incoming


def test_a_chain_of_ten_thousand_auto_delete_exchanges_goes_with_its_queue() -> None:
    length = 10_000
    graph = graph_of(*(Exchange(f"x{n}", "direct", auto_delete=True) for n in range(length)))
    for number in range(length - 1):
        graph.add_binding(between(f"x{number}", f"x{number + 1}"))
    graph.add_binding(Binding(f"x{length - 1}", "q", "queue", "k"))
    changes = [graph.remove_queue("q")]
    while change := graph.remove_departed():
        changes.append(change)
    assert sum(len(each.bindings_removed) for each in changes) == length
    assert max(len(each.bindings_removed) for each in changes) == DEPARTED_BINDINGS_MAX
    deleted = [name for each in changes for name in names(each.exchanges_deleted)]
    assert deleted == [f"x{n}" for n in reversed(range(length))]
    assert not graph.exchanges


def test_deleting_an_exchange_in_a_cycle_takes_each_binding_once() -> None:
    graph = graph_of(Exchange("x", "direct"), Exchange("y", "direct", auto_delete=True))
    bindings = {between("x", "x"), between("x", "y"), between("y", "x")}
    for binding in bindings:
        graph.add_binding(binding)
    change = graph.remove_exchange("x")
    assert len(change.bindings_removed) == 3
    assert set(change.bindings_removed) == bindings
    assert names(change.exchanges_deleted) == ["x", "y"]
    assert not graph.exchanges


def test_an_auto_delete_exchange_bound_to_itself_goes_with_that_binding() -> None:
    graph = graph_of(Exchange("x", "direct", auto_delete=True))
    graph.add_binding(between("x", "x"))
    change = graph.remove_binding(between("x", "x"))
    assert names(change.exchanges_deleted) == ["x"]
    assert change.bindings_removed == (between("x", "x"),)


def test_losing_a_binding_as_destination_keeps_an_auto_delete_exchange() -> None:
    graph = graph_of(Exchange("x", "direct"), Exchange("y", "direct", auto_delete=True))
    graph.add_binding(between("x", "y"))
    graph.remove_binding(between("x", "y"))
    assert "y" in graph.exchanges


def test_neighbours_are_forgotten_with_their_last_binding() -> None:
    graph = graph_of(Exchange("x", "direct"), Exchange("y", "direct"))
    other = Binding("x", "y", "exchange", "other")
    for binding in (between("x", "y"), other):
        graph.add_binding(binding)
    graph.remove_binding(other)
    assert set(graph.exchanges["x"].next_exchanges) == {"y"}
    graph.remove_binding(between("x", "y"))
    assert not graph.exchanges["x"].next_exchanges


def test_a_change_is_true_when_anything_came_or_went() -> None:
    assert not NO_CHANGE
    exchange, binding = Exchange("x", "direct"), Binding("x", "q", "queue", "k")
    assert TopologyChange(exchanges_declared=(exchange,))
    assert TopologyChange(exchanges_deleted=(exchange,))
    assert TopologyChange(bindings_added=(binding,))
    assert TopologyChange(bindings_removed=(binding,))
