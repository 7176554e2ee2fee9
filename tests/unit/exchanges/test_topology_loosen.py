"""An exchange or queue with many bindings loses some of them at a time, and what hangs on the last one goes."""

import pytest

from exchanges import RoutingTable, SystemExchangeProtected


def crowded() -> RoutingTable:
    table = RoutingTable("/")
    table.declare("from", "topic", auto_delete=True)
    table.declare("onto", "fanout")
    for queue in ("to", "beside"):
        table.add_queue(queue, durable=True)
    for number in range(10):
        table.bind_queue("to", "from", f"{number}.*")
    table.bind_queue("beside", "onto", "")
    table.bind_exchange("from", "onto", "")
    return table


def test_a_queue_loses_its_oldest_bindings_until_few_are_left() -> None:
    table = crowded()
    version = table.version
    removed = []
    while change := table.loosen_queue("to", 4):
        removed.append([binding.routing_key for binding in change.bindings_removed])
    assert removed == [["0.*", "1.*", "2.*", "3.*"], ["4.*", "5.*", "6.*", "7.*"]]
    assert table.version == version + 2
    assert table.degree_of_queue("to") == 2
    assert set(table.route("from", b"8.x")) == {"to"}
    assert not set(table.route("from", b"7.x"))
    assert [each.name for each in table.remove_queue("to").exchanges_deleted] == ["from"]


def test_an_exchange_loses_bindings_at_both_of_its_ends() -> None:
    table = crowded()
    assert table.degree_of_exchange("from") == 11
    assert len(table.loosen_exchange("from", 8).bindings_removed) == 8
    assert not table.loosen_exchange("from", 3)
    change = table.loosen_exchange(
        "from", 2
    )  # the last that leave from it: it goes with what leads to it
    assert [each.name for each in change.exchanges_deleted] == ["from"]
    assert len(change.bindings_removed) == 3
    assert not set(table.route("onto", b"")) - {"beside"}


def test_few_bindings_and_what_is_missing_change_nothing() -> None:
    table = crowded()
    version = table.version
    assert not table.loosen_queue("beside", 1)
    assert not table.loosen_queue("nothing", 0)
    assert not table.loosen_exchange("nothing", 0)
    assert table.degree_of_queue("nothing") == table.degree_of_exchange("nothing") == 0
    assert table.version == version


def test_what_cannot_be_deleted_loses_no_bindings() -> None:
    table = crowded()
    table.bind_queue("to", "amq.topic", "k")
    table.bind_queue("to", "amq.topic", "l")
    with pytest.raises(SystemExchangeProtected):
        table.loosen_exchange("amq.topic", 1)
    assert table.degree_of_exchange("amq.topic") == 2
