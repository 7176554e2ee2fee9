"""The rules of a vhost's topology."""

from collections.abc import Callable

import pytest

from routelog.exchanges import (
    NO_CHANGE,
    Binding,
    DefaultExchangeProtected,
    Exchange,
    ExchangeInequivalent,
    ExchangeInUse,
    ExchangeNotFound,
    InvalidBindingArguments,
    InvalidExchangeArgument,
    InvalidName,
    QueueNotFound,
    ReservedName,
    RoutingError,
    RoutingTable,
    SystemExchangeProtected,
    UnknownExchangeType,
)

Call = Callable[[RoutingTable], object]


@pytest.fixture
def table() -> RoutingTable:
    table = RoutingTable()
    table.declare(Exchange("x", "direct"))
    table.declare(Exchange("dx", "topic", durable=True))
    table.add_queue("q", durable=False)
    table.add_queue("dq", durable=True)
    return table


def test_a_new_vhost_has_the_predeclared_exchanges() -> None:
    exchanges = RoutingTable().exchanges()
    assert {(exchange.name, exchange.type) for exchange in exchanges} == {
        ("", "direct"),
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
        ("amq.rabbitmq.trace", "topic"),
    }
    assert all(exchange.durable for exchange in exchanges)


def test_a_declaration_is_reported_once(table: RoutingTable) -> None:
    change = table.declare(Exchange("new", "fanout", durable=True, arguments={"note": 1}))
    exchange = Exchange("new", "fanout", durable=True, arguments={"note": 1})
    assert change.exchanges_declared == (exchange,)
    assert table.declare(Exchange("new", "fanout", durable=True)) is NO_CHANGE
    assert table.exchange("new") == exchange


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda t: t.exchange("nope"),
            ExchangeNotFound,
            "no exchange 'nope' in vhost '/'",
        ),
        (
            lambda t: t.declare(Exchange("x", "fanout")),
            ExchangeInequivalent,
            "inequivalent arg 'type' for exchange 'x' in vhost '/': "
            "received 'fanout' but current is 'direct'",
        ),
        (
            lambda t: t.declare(Exchange("n", "wat")),
            UnknownExchangeType,
            "unknown exchange type 'wat'",
        ),
        (
            lambda t: t.declare(Exchange("amq.n", "wat")),
            UnknownExchangeType,
            "unknown exchange type 'wat'",
        ),
        (
            lambda t: t.declare(Exchange("amq.n", "direct")),
            ReservedName,
            "exchange name 'amq.n' contains reserved prefix 'amq.*'",
        ),
        (
            lambda t: t.declare(Exchange("a\nb", "direct")),
            InvalidName,
            "invalid exchange name 'a\\nb': it holds a control character",
        ),
        (
            lambda t: t.declare(Exchange("n", "direct", arguments={"alternate-exchange": True})),
            InvalidExchangeArgument,
            "invalid type 'bool' for arg 'alternate-exchange' in exchange 'n' in vhost '/'",
        ),
        (
            lambda t: t.delete("amq.direct"),
            SystemExchangeProtected,
            "deletion of system exchange 'amq.direct' in vhost '/' not allowed",
        ),
        (
            lambda t: t.bind(Binding("nope", "q", "queue", "k")),
            ExchangeNotFound,
            "no exchange 'nope' in vhost '/'",
        ),
        (
            lambda t: t.bind(Binding("x", "no", "queue", "k")),
            QueueNotFound,
            "no queue 'no' in vhost '/'",
        ),
        (
            lambda t: t.bind(Binding("nope", "no", "queue", "k")),
            ExchangeNotFound,
            "no exchange 'nope' in vhost '/'",
        ),
        (
            lambda t: t.bind(Binding("x", "nope", "exchange", "k")),
            ExchangeNotFound,
            "no exchange 'nope' in vhost '/'",
        ),
        (
            lambda t: t.bind(Binding("amq.headers", "q", "queue", "", {"x-match": "foo"})),
            InvalidBindingArguments,
            'Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x',
        ),
        (
            lambda t: t.bind(Binding("x", "q", "queue", "", {"a": object()})),
            InvalidBindingArguments,
            "invalid binding argument 'a': object is no field type",
        ),
        (
            lambda t: t.bind(Binding("x", "q", "queue", "k" * 256)),
            InvalidName,
            f"invalid routing key '{'k' * 40}': it is longer than 255 bytes",
        ),
        (
            lambda t: t.add_queue("", durable=True),
            InvalidName,
            "invalid queue name '': it is empty",
        ),
        (lambda t: t.route("nope", b"k"), ExchangeNotFound, "no exchange 'nope' in vhost '/'"),
        (lambda t: t.bindings_from("nope"), ExchangeNotFound, "no exchange 'nope' in vhost '/'"),
        (lambda t: t.bindings_to_queue("no"), QueueNotFound, "no queue 'no' in vhost '/'"),
    ],
)
def test_a_refused_call_says_why_and_changes_nothing(
    table: RoutingTable, call: Call, error: type[RoutingError], text: str
) -> None:
    before = (table.version, table.exchanges(), table.bindings())
    with pytest.raises(error) as caught:
        call(table)
    assert str(caught.value) == text
    assert (table.version, table.exchanges(), table.bindings()) == before


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.declare(Exchange("", "direct")),
        lambda t: t.delete(""),
        lambda t: t.bind(Binding("", "q", "queue", "k")),
        lambda t: t.unbind(Binding("", "q", "queue", "q")),
        lambda t: t.bind(Binding("x", "", "exchange", "k")),
        lambda t: t.bind(Binding("", "x", "exchange", "k")),
        lambda t: t.unbind(Binding("x", "", "exchange", "k")),
        lambda t: t.unbind(Binding("", "x", "exchange", "k")),
    ],
)
def test_the_default_exchange_is_protected(table: RoutingTable, call: Call) -> None:
    with pytest.raises(DefaultExchangeProtected, match="not permitted on the default exchange"):
        call(table)


def test_a_predeclared_exchange_may_be_declared_again(table: RoutingTable) -> None:
    assert table.declare(Exchange("amq.direct", "direct", durable=True)) is NO_CHANGE
    with pytest.raises(ExchangeInequivalent):
        table.declare(Exchange("amq.direct", "fanout", durable=True))


def test_restoring_may_use_reserved_names(table: RoutingTable) -> None:
    table.restore_exchange(Exchange("amq.theirs", "topic", internal=True))
    assert table.has_exchange("amq.theirs")


def test_deleting_takes_the_bindings_of_both_sides(table: RoutingTable) -> None:
    table.bind(Binding("x", "q", "queue", "k"))
    table.bind(Binding("dx", "x", "exchange", "k"))
    change = table.delete("x")
    assert [exchange.name for exchange in change.exchanges_deleted] == ["x"]
    assert {(b.source, b.destination) for b in change.bindings_removed} == {("x", "q"), ("dx", "x")}
    assert table.delete("x") is NO_CHANGE
    assert table.bindings_from("dx") == []


def test_delete_if_unused_looks_at_bindings_that_leave(table: RoutingTable) -> None:
    table.bind(Binding("dx", "x", "exchange", "k"))
    with pytest.raises(ExchangeInUse, match="exchange 'dx' in vhost '/' in use"):
        table.delete("dx", if_unused=True)
    assert table.delete("x", if_unused=True)
    assert table.delete("dx", if_unused=True)


@pytest.mark.parametrize(
    ("queue", "exchange", "durable"),
    [("q", "x", False), ("q", "dx", False), ("dq", "x", False), ("dq", "dx", True)],
)
def test_a_binding_is_as_durable_as_its_weaker_end(
    table: RoutingTable, queue: str, exchange: str, durable: bool
) -> None:
    (added,) = table.bind(Binding(exchange, queue, "queue", "k")).bindings_added
    assert added.durable is durable
    (removed,) = table.unbind(Binding(exchange, queue, "queue", "k")).bindings_removed
    assert removed.durable is durable


def test_binding_twice_is_one_binding_and_arguments_make_another(table: RoutingTable) -> None:
    assert table.bind(Binding("x", "q", "queue", "k"))
    assert table.bind(Binding("x", "q", "queue", "k")) is NO_CHANGE
    assert table.bind(Binding("x", "q", "queue", "k", {"a": 1}))
    assert table.bind(Binding("x", "q", "queue", "k", {"a": 1.0})) is NO_CHANGE
    assert table.unbind(Binding("x", "q", "queue", "k"))
    assert table.route("x", b"k") == ("q",)
    assert table.unbind(Binding("x", "q", "queue", "k", {"a": 1}))
    assert table.route("x", b"k") == ()


def test_unbinding_what_is_not_bound_is_no_error(table: RoutingTable) -> None:
    for queue, exchange in (("q", "x"), ("no", "x"), ("q", "nope")):
        assert table.unbind(Binding(exchange, queue, "queue", "k")) is NO_CHANGE
    assert table.unbind(Binding("x", "nope", "exchange", "k")) is NO_CHANGE
    assert table.unbind(Binding("nope", "x", "exchange", "k")) is NO_CHANGE


def test_an_auto_delete_exchange_waits_for_its_first_binding(table: RoutingTable) -> None:
    table.declare(Exchange("auto", "fanout", auto_delete=True))
    table.unbind(Binding("auto", "q", "queue", ""))
    assert table.has_exchange("auto")
    table.bind(Binding("auto", "q", "queue", ""))
    table.bind(Binding("auto", "dq", "queue", ""))
    table.unbind(Binding("auto", "q", "queue", ""))
    assert table.has_exchange("auto")
    change = table.remove_queue("dq")
    assert [exchange.name for exchange in change.exchanges_deleted] == ["auto"]
    assert not table.has_exchange("auto")


def test_a_removed_queue_takes_its_bindings_along(table: RoutingTable) -> None:
    table.bind(Binding("x", "q", "queue", "k"))
    table.bind(Binding("dx", "q", "queue", "#"))
    table.bind(Binding("dx", "dq", "queue", "#"))
    change = table.remove_queue("q")
    assert {(b.source, b.destination) for b in change.bindings_removed} == {("x", "q"), ("dx", "q")}
    assert table.remove_queue("q") is NO_CHANGE
    assert not table.has_queue("q")
    assert [b.destination for b in table.bindings_from("dx")] == ["dq"]


def test_a_queue_is_added_once_and_keeps_its_durability(table: RoutingTable) -> None:
    version = table.version
    table.add_queue("q", durable=False)
    assert table.version == version
    with pytest.raises(ValueError, match="durable=False"):
        table.add_queue("q", durable=True)


def test_every_change_raises_the_version_and_nothing_else_does(table: RoutingTable) -> None:
    changes: list[Call] = [
        lambda t: t.declare(Exchange("n", "direct")),
        lambda t: t.add_queue("n", durable=True),
        lambda t: t.bind(Binding("n", "n", "queue", "k")),
        lambda t: t.bind(Binding("x", "n", "exchange", "k")),
        lambda t: t.unbind(Binding("x", "n", "exchange", "k")),
        lambda t: t.unbind(Binding("n", "n", "queue", "k")),
        lambda t: t.remove_queue("n"),
        lambda t: t.delete("n"),
    ]
    for call in changes:
        version = table.version
        call(table)
        assert table.version > version
    version = table.version
    for call in (changes[7], changes[6], lambda t: t.declare(Exchange("x", "direct"))):
        call(table)
    assert table.version == version


def test_a_topology_restored_from_its_values_is_the_same(table: RoutingTable) -> None:
    table.bind(Binding("dx", "dq", "queue", "a.*", {"n": 1}))
    table.bind(Binding("dx", "x", "exchange", "#"))
    copy = RoutingTable()
    for exchange in table.exchanges():
        copy.restore_exchange(exchange)
    for queue, durable in (("q", False), ("dq", True)):
        copy.add_queue(queue, durable=durable)
    for binding in table.bindings():
        if binding.source:
            assert copy.bind(binding).bindings_added[0].durable == binding.durable
    assert copy.exchanges() == table.exchanges()
    assert copy.bindings() == table.bindings()


def test_restoring_a_binding_of_the_default_exchange_is_refused(table: RoutingTable) -> None:
    with pytest.raises(DefaultExchangeProtected):
        table.bind(Binding("", "q", "queue", "q"))
