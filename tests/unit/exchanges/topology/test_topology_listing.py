"""Look-ups and lists of a topology."""

import pytest

from routelog.exchanges import Binding, Exchange, ExchangeNotFound, RoutingTable


@pytest.fixture
def table() -> RoutingTable:
    table = RoutingTable("shop")
    table.declare(Exchange("x", "direct"))
    table.declare(Exchange("y", "fanout"))
    table.add_queue("q", durable=True)
    table.bind(Binding("x", "q", "queue", "k", {"a": 1}))
    table.bind(Binding("x", "y", "exchange", "k"))
    return table


IMPLICIT = Binding("", "q", "queue", "q")
TO_QUEUE = Binding("x", "q", "queue", "k", {"a": 1})
TO_EXCHANGE = Binding("x", "y", "exchange", "k")


def test_bindings_are_listed_by_either_end(table: RoutingTable) -> None:
    assert table.bindings() == [IMPLICIT, TO_QUEUE, TO_EXCHANGE]
    assert table.bindings_from("x") == [TO_QUEUE, TO_EXCHANGE]
    assert table.bindings_from("") == [IMPLICIT]
    assert table.bindings_to_queue("q") == [IMPLICIT, TO_QUEUE]
    assert table.bindings_to_exchange("y") == [TO_EXCHANGE]
    assert table.bindings_to_exchange("x") == []


def test_an_implicit_binding_is_as_durable_as_its_queue(table: RoutingTable) -> None:
    assert table.bindings_from("")[0].durable is True


def test_lists_are_copies(table: RoutingTable) -> None:
    table.bindings_from("x").clear()
    table.exchanges().clear()
    assert len(table.bindings_from("x")) == 2
    assert table.has_exchange("x")


def test_the_vhosts_name_stands_in_errors(table: RoutingTable) -> None:
    with pytest.raises(ExchangeNotFound, match="no exchange 'nope' in vhost 'shop'"):
        table.exchange("nope")
