"""The registry of exchange types is open."""

import pytest

from routelog.exchanges import (
    EXCHANGE_TYPES,
    Binding,
    Exchange,
    Message,
    RoutingTable,
    UnknownExchangeType,
)


class LastIndex:
    """Matches the newest binding; no two calls need agree."""

    key_decides = False
    reads_headers = False

    remembers = False

    def __init__(self) -> None:
        self.bindings: list[Binding] = []

    def check(self, binding: Binding) -> None:
        """Accept every binding."""

    def add(self, binding: Binding) -> None:
        self.bindings.append(binding)

    def remove(self, binding: Binding) -> None:
        self.bindings.remove(binding)

    def match(self, routing_key: bytes, message: Message) -> list[Binding]:
        return self.bindings[-1:]


def last_index(exchange: Exchange) -> LastIndex:
    return LastIndex()


def test_the_types_of_the_specification_and_of_rabbitmqs_plugins_are_there() -> None:
    assert {"direct", "fanout", "topic", "headers"} <= set(EXCHANGE_TYPES)
    plugins = {"consistent-hash", "modulus-hash", "random", "local-random", "recent-history"}
    assert {f"x-{name}" for name in (*plugins, "message-deduplication")} <= set(EXCHANGE_TYPES)


def test_a_further_type_is_an_index_and_a_name() -> None:
    table = RoutingTable(types={**EXCHANGE_TYPES, "x-last": last_index})
    table.declare(Exchange("x", "x-last"))
    for queue in ("q1", "q2"):
        table.add_queue(queue, durable=False)
        table.bind(Binding("x", queue, "queue", ""))
    assert table.route("x", b"k") == ("q2",)
    assert table.cached_routes("x") is None
    assert not table.needs_headers("x")


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(UnknownExchangeType, match=r"^unknown exchange type 'x-last'$"):
        RoutingTable().declare(Exchange("x", "x-last"))
