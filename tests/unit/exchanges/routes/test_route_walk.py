"""The way of a message over exchange bindings and alternates."""

from routelog.exchanges import RoutingTable


def table_with(*queues: str) -> RoutingTable:
    table = RoutingTable()
    for queue in queues:
        table.add_queue(queue, durable=False)
    return table


def declare(table: RoutingTable, name: str, type_name: str, alternate: str | None = None) -> None:
    arguments = {"alternate-exchange": alternate} if alternate is not None else None
    table.declare(name, type_name, arguments=arguments)


def test_a_queue_reached_on_two_ways_is_named_once() -> None:
    table = table_with("q")
    for name in ("x", "left", "right"):
        declare(table, name, "fanout")
    table.bind_exchange("left", "x", "")
    table.bind_exchange("right", "x", "")
    for source in ("x", "left", "right"):
        table.bind_queue("q", source, "")
    assert table.route("x", b"k") == ("q",)


def test_queues_come_in_the_order_of_their_names() -> None:
    table = table_with("b", "c", "a")
    for queue in ("b", "c", "a"):
        table.bind_queue(queue, "amq.fanout", "")
    assert table.route("amq.fanout", b"") == ("a", "b", "c")


def test_cycles_of_bindings_end() -> None:
    table = table_with("q")
    for name in ("x", "y"):
        declare(table, name, "fanout")
    table.bind_exchange("y", "x", "")
    table.bind_exchange("x", "y", "")
    table.bind_exchange("x", "x", "")
    table.bind_queue("q", "y", "")
    assert table.route("x", b"") == ("q",)


def test_the_alternate_gets_what_matched_nothing() -> None:
    table = table_with("q", "rest")
    declare(table, "ae", "fanout")
    declare(table, "x", "direct", "ae")
    table.bind_queue("q", "x", "k")
    table.bind_queue("rest", "ae", "")
    assert table.route("x", b"k") == ("q",)
    assert table.route("x", b"other") == ("rest",)


def test_alternates_chain_and_their_loops_end() -> None:
    table = table_with("q")
    declare(table, "x", "direct", "y")
    declare(table, "y", "direct", "z")
    declare(table, "z", "direct", "x")
    assert table.route("x", b"k") == ()
    table.bind_queue("q", "z", "k")
    assert table.route("x", b"k") == ("q",)


def test_an_exchange_on_the_way_asks_its_own_alternate() -> None:
    table = table_with("q", "rest")
    declare(table, "ae", "fanout")
    declare(table, "inner", "direct", "ae")
    declare(table, "x", "fanout")
    table.bind_exchange("inner", "x", "")
    table.bind_queue("q", "x", "")
    table.bind_queue("rest", "ae", "")
    assert table.route("x", b"k") == ("q", "rest")


def test_a_match_that_leads_nowhere_is_a_match() -> None:
    table = table_with("rest")
    declare(table, "ae", "fanout")
    declare(table, "dead-end", "direct")
    declare(table, "x", "fanout", "ae")
    table.bind_queue("rest", "ae", "")
    table.bind_exchange("dead-end", "x", "")
    assert table.route("x", b"k") == ()


def test_an_alternate_that_is_not_there_is_passed_over_until_it_is() -> None:
    table = table_with("rest")
    declare(table, "x", "direct", "ae")
    assert table.route("x", b"k") == ()
    declare(table, "ae", "fanout")
    table.bind_queue("rest", "ae", "")
    assert table.route("x", b"k") == ("rest",)


def test_the_default_exchange_as_alternate_routes_nothing() -> None:
    table = table_with("q")
    declare(table, "x", "direct", "")
    assert table.route("x", b"q") == ()
