"""What is deleted with very many bindings is gone at once, and its bindings go some at a time."""

import pytest

from routelog.exchanges import (
    Binding,
    Exchange,
    ExchangeInUse,
    QueueNotFound,
    RoutingTable,
    TopologyChange,
)
from routelog.exchanges.topology.binding_graph import (
    ARGUMENTS_OF_ONE,
    AT_ONCE_MAX,
    DEPARTED_BINDINGS_MAX,
)

COUNT = AT_ONCE_MAX + 2 * DEPARTED_BINDINGS_MAX + 5


def crowded() -> RoutingTable:
    table = RoutingTable("/")
    table.declare(
        Exchange("from", "topic", auto_delete=True, arguments={"alternate-exchange": "other"})
    )
    table.declare(Exchange("other", "fanout"))
    table.declare(Exchange("onto", "fanout"))
    for queue in ("to", "beside"):
        table.add_queue(queue, durable=True)
    for number in range(COUNT):
        table.bind(Binding("from", "to", "queue", f"{number}.*"))
    table.bind(Binding("other", "beside", "queue", ""))
    table.bind(Binding("onto", "from", "exchange", ""))
    return table


def all_removed(table: RoutingTable) -> list[TopologyChange]:
    changes = []
    while change := table.remove_departed():
        changes.append(change)
    return changes


def test_a_deleted_queue_is_gone_before_its_bindings() -> None:
    table = crowded()
    assert table.route("from", b"999.x") == ("beside",)
    assert table.route("from", b"200.x") == ("to",)
    change = table.remove_queue("to")
    assert change.unfinished
    assert [each.routing_key for each in change.bindings_removed] == [
        f"{n}.*" for n in range(AT_ONCE_MAX)
    ]
    assert table.route("from", b"200.x") == ("beside",)  # as if nothing matched
    assert table.route("onto", b"") == ("beside",)
    assert table.bindings_from("from") == []
    assert not table.has_queue("to")
    with pytest.raises(QueueNotFound):
        table.bind(Binding("from", "to", "queue", "new"))
    with pytest.raises(QueueNotFound):
        table.bindings_to_queue("to")


def test_its_bindings_go_some_at_a_time_and_then_what_they_were_the_last_of() -> None:
    table = crowded()
    table.remove_queue("to")
    version = table.version
    changes = all_removed(table)
    assert [len(each.bindings_removed) for each in changes] == [
        DEPARTED_BINDINGS_MAX,
        DEPARTED_BINDINGS_MAX,
        6,
    ]
    assert [each.unfinished for each in changes] == [True, True, False]
    assert table.version == version + 3
    assert [each.name for each in changes[-1].exchanges_deleted] == ["from"]
    assert changes[-1].bindings_removed[-1] == Binding("onto", "from", "exchange", "")
    assert not table.remove_departed()
    assert table.route("onto", b"") == ()


def test_its_name_is_free_when_the_last_one_has_gone() -> None:
    table = crowded()
    table.remove_queue("to")
    with pytest.raises(ValueError, match="'to' has bindings left"):
        table.add_queue("to", durable=True)
    assert table.has_departed("queue", "to")
    assert not table.has_departed("exchange", "to")
    all_removed(table)
    assert not table.has_departed("queue", "to")
    table.add_queue("to", durable=True)
    assert len(table.bindings_to_queue("to")) == 1  # of the default exchange


def test_a_deleted_exchange_is_gone_before_its_bindings() -> None:
    table = crowded()
    table.bind(Binding("from", "from", "exchange", "self"))
    change = table.delete("from")
    assert [each.name for each in change.exchanges_deleted] == ["from"]
    assert len(change.bindings_removed) == AT_ONCE_MAX
    assert not table.has_exchange("from")
    assert table.route("onto", b"") == ()
    assert table.bindings_from("onto") == []
    assert len(table.bindings_to_queue("to")) == 1
    with pytest.raises(ValueError, match="'from' has bindings left"):
        table.declare(Exchange("from", "direct"))
    removed = [*change.bindings_removed]
    for each in all_removed(table):
        assert not each.exchanges_deleted
        removed += each.bindings_removed
    assert len(removed) == len(set(removed)) == COUNT + 2
    table.declare(Exchange("from", "topic"))
    assert table.bindings_from("from") == table.bindings_to_exchange("from") == []


def test_both_ends_of_the_same_bindings_can_be_deleted_at_once() -> None:
    table = crowded()
    removed = [*table.remove_queue("to").bindings_removed, *table.delete("from").bindings_removed]
    for each in all_removed(table):
        removed += each.bindings_removed
    assert len(removed) == len(set(removed)) == COUNT + 1


def test_a_binding_may_be_removed_meanwhile() -> None:
    table = crowded()
    table.remove_queue("to")
    assert len(table.unbind(Binding("from", "to", "queue", "200.*")).bindings_removed) == 1
    assert sum(len(each.bindings_removed) for each in all_removed(table)) == COUNT - AT_ONCE_MAX


def test_few_bindings_go_at_once_whatever_else_is_under_way() -> None:
    table = crowded()
    table.remove_queue("to")
    change = table.remove_queue("beside")
    assert len(change.bindings_removed) == 1
    assert not change.unfinished
    table.add_queue("beside", durable=True)


def test_an_exchange_with_nothing_but_such_bindings_is_unused() -> None:
    table = crowded()
    with pytest.raises(ExchangeInUse):
        table.delete("from", if_unused=True)
    table.remove_queue("to")
    assert [each.name for each in table.delete("from", if_unused=True).exchanges_deleted] == [
        "from"
    ]


def test_a_deletion_that_is_taken_back_takes_no_binding() -> None:
    table = crowded()
    before = set(table.bindings())
    table.undo(table.delete("from"))
    assert set(table.bindings()) == before
    assert table.route("from", b"0.x") == table.route("from", b"200.x") == ("to",)
    assert not table.remove_departed()


@pytest.mark.parametrize("missing", ["from", "to"])
def test_bindings_without_an_end_are_found_at_recovery_and_go(missing: str) -> None:
    table = RoutingTable("/")
    if missing == "from":
        table.add_queue("to", durable=True)
    else:
        table.declare(Exchange("from", "topic", durable=True, auto_delete=True))
    orphans = {Binding("from", "to", "queue", f"{n}.*", durable=True) for n in range(3)}
    for orphan in orphans:
        table.restore_departed(orphan)
    assert {each.source for each in table.bindings()} <= {""}
    change = table.remove_departed()
    assert set(change.bindings_removed) == orphans
    assert [each.name for each in change.exchanges_deleted] == ["from"] * (missing == "to")
    assert not table.remove_departed()


def test_a_deleted_queue_is_gone_from_among_others_bound_alike() -> None:
    table = crowded()
    table.add_queue("last", durable=True)
    table.bind(Binding("from", "last", "queue", f"{COUNT - 1}.*"))
    table.bind(Binding("from", "onto", "exchange", f"{COUNT - 2}.*"))
    table.bind(Binding("onto", "last", "queue", ""))
    keys = [b"%d.x" % (COUNT - back) for back in (1, 2, 3)]
    assert [table.route("from", key) for key in keys] == [("last", "to"), ("last", "to"), ("to",)]
    table.remove_queue("to")
    assert [table.route("from", key) for key in keys] == [("last",), ("last",), ("beside",)]
    table.delete("onto")
    assert [table.route("from", key) for key in keys] == [("last",), ("beside",), ("beside",)]


def test_a_place_where_all_bindings_have_lost_their_end_matches_nothing() -> None:
    table = crowded()
    table.bind(Binding("from", "to", "queue", "0.*", {"another": 1}))
    table.bind(Binding("from", "to", "queue", f"{COUNT - 1}.*", {"another": 1}))
    key = b"%d.x" % (COUNT - 1)
    assert table.route("from", key) == ("to",)
    table.remove_queue("to")
    assert table.route("from", key) == ("beside",)


def test_bindings_with_many_arguments_count_as_several() -> None:
    table = RoutingTable("/")
    table.add_queue("to", durable=False)
    arguments = {f"k{n}": n for n in range(15 * ARGUMENTS_OF_ONE)}
    for number in range(20):
        table.bind(Binding("amq.headers", "to", "queue", f"{number}", arguments))
    changes = [table.remove_queue("to"), *all_removed(table)]
    assert [len(each.bindings_removed) for each in changes] == [2, 8, 8, 2]


def test_what_is_forgotten_takes_nothing_along() -> None:
    table = crowded()
    bindings = table.bindings_to_queue("to")[1:]
    table.forget_queue("to")
    table.forget_queue("to")  # a missing one is no error
    assert table.has_departed("queue", "to")
    assert table.route("from", b"200.x") == ("beside",)
    for binding in bindings:
        assert table.has_departed("queue", "to")
        assert table.forget_binding(binding) == TopologyChange(bindings_removed=(binding,))
    assert not table.forget_binding(bindings[0])
    assert not table.has_departed("queue", "to")
    assert table.has_exchange("from")  # it is auto-delete, and that is for others to say


def test_a_forgotten_exchange_is_departed_until_all_its_bindings_are_forgotten() -> None:
    table = crowded()
    bindings = [*table.bindings_from("from"), *table.bindings_to_exchange("from")]
    version = table.version
    assert [each.name for each in table.forget_exchange("from").exchanges_deleted] == ["from"]
    assert not table.forget_exchange("from")
    assert table.version == version + 1
    for binding in bindings:
        assert table.has_departed("exchange", "from")
        table.forget_binding(binding)
    assert not table.has_departed("exchange", "from")


def test_what_has_no_bindings_is_forgotten_at_once() -> None:
    table = RoutingTable("/")
    table.declare(Exchange("x", "direct"))
    table.add_queue("q", durable=True)
    table.forget_queue("q")
    table.forget_exchange("x")
    assert not table.has_departed("queue", "q")
    assert not table.has_departed("exchange", "x")
