"""The way of a message over exchange bindings and alternates."""

from routelog.exchanges import Binding, Exchange, RoutingTable


def table_with(*queues: str) -> RoutingTable:
    table = RoutingTable()
    for queue in queues:
        table.add_queue(queue, durable=False)
    return table


def declare(table: RoutingTable, name: str, type_name: str, alternate: str | None = None) -> None:
    arguments = {"alternate-exchange": alternate} if alternate is not None else {}
    table.declare(Exchange(name, type_name, arguments=arguments))


def test_a_queue_reached_on_two_ways_is_named_once() -> None:
    table = table_with("q")
    for name in ("x", "left", "right"):
        declare(table, name, "fanout")
    table.bind(Binding("x", "left", "exchange", ""))
    table.bind(Binding("x", "right", "exchange", ""))
    for source in ("x", "left", "right"):
        table.bind(Binding(source, "q", "queue", ""))
    assert table.route("x", b"k") == ("q",)


def test_queues_come_in_the_order_of_their_names() -> None:
    table = table_with("b", "c", "a")
    for queue in ("b", "c", "a"):
        table.bind(Binding("amq.fanout", queue, "queue", ""))
    assert table.route("amq.fanout", b"") == ("a", "b", "c")


def test_cycles_of_bindings_end() -> None:
    table = table_with("q")
    for name in ("x", "y"):
        declare(table, name, "fanout")
    table.bind(Binding("x", "y", "exchange", ""))
    table.bind(Binding("y", "x", "exchange", ""))
    table.bind(Binding("x", "x", "exchange", ""))
    table.bind(Binding("y", "q", "queue", ""))
    assert table.route("x", b"") == ("q",)


def test_the_alternate_gets_what_matched_nothing() -> None:
    table = table_with("q", "rest")
    declare(table, "ae", "fanout")
    declare(table, "x", "direct", "ae")
    table.bind(Binding("x", "q", "queue", "k"))
    table.bind(Binding("ae", "rest", "queue", ""))
    assert table.route("x", b"k") == ("q",)
    assert table.route("x", b"other") == ("rest",)


def test_alternates_chain_and_their_loops_end() -> None:
    table = table_with("q")
    declare(table, "x", "direct", "y")
    declare(table, "y", "direct", "z")
    declare(table, "z", "direct", "x")
    assert table.route("x", b"k") == ()
    table.bind(Binding("z", "q", "queue", "k"))
    assert table.route("x", b"k") == ("q",)


def test_an_exchange_on_the_way_asks_its_own_alternate() -> None:
    table = table_with("q", "rest")
    declare(table, "ae", "fanout")
    declare(table, "inner", "direct", "ae")
    declare(table, "x", "fanout")
    table.bind(Binding("x", "inner", "exchange", ""))
    table.bind(Binding("x", "q", "queue", ""))
    table.bind(Binding("ae", "rest", "queue", ""))
    assert table.route("x", b"k") == ("q", "rest")


def test_a_match_that_leads_nowhere_is_a_match() -> None:
    table = table_with("rest")
    declare(table, "ae", "fanout")
    declare(table, "dead-end", "direct")
    declare(table, "x", "fanout", "ae")
    table.bind(Binding("ae", "rest", "queue", ""))
    table.bind(Binding("x", "dead-end", "exchange", ""))
    assert table.route("x", b"k") == ()


def test_an_alternate_that_is_not_there_is_passed_over_until_it_is() -> None:
    table = table_with("rest")
    declare(table, "x", "direct", "ae")
    assert table.route("x", b"k") == ()
    declare(table, "ae", "fanout")
    table.bind(Binding("ae", "rest", "queue", ""))
    assert table.route("x", b"k") == ("rest",)


def test_the_default_exchange_as_alternate_routes_nothing() -> None:
    table = table_with("q")
    declare(table, "x", "direct", "")
    assert table.route("x", b"q") == ()
