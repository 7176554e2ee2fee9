"""Stored changes of a vhost are carried out one by one, each alone, and open nothing."""

import msgspec
import pytest
from support.queue_samples import Node

from routelog.exchanges import Binding, Exchange, QueueNotFound
from routelog.log_backend import Change, MetadataCorrupt
from routelog.vhosts import QueueProperties, VhostRecord, VirtualHost
from routelog.vhosts.stored.topology_record import (
    GroupRecord,
    binding_change,
    delay_change,
    exchange_change,
    group_change,
    next_cursor_change,
    queue_change,
    vhost_change,
)

V = "v w"
X = Exchange("x/y", "topic", durable=True, auto_delete=True)
Q = QueueProperties("q", durable=True, arguments={"x-retention": "1h"}, user="me")
FIRST, SECOND = (Binding("x/y", "q", "queue", key, {"n": 1}, True) for key in ("a", "b"))


@pytest.fixture
def vhost(node: Node) -> VirtualHost:
    node.vhosts.apply(vhost_change(VhostRecord(V)), None)
    return node.vhosts.get(V)


def apply(vhost: VirtualHost, *changes: Change, before: bytes | None = None) -> None:
    for change in changes:
        vhost.stored.apply(change, before)


def declare(vhost: VirtualHost) -> None:
    bindings = [binding_change(V, each) for each in (FIRST, SECOND)]
    apply(vhost, exchange_change(V, X), queue_change(V, Q, [3, 4]), *bindings)


def test_what_is_stored_is_known_and_routes_and_is_not_open(node: Node, vhost: VirtualHost) -> None:
    declare(vhost)
    assert vhost.routing.route("x/y", b"a") == ("q",)
    assert vhost.binding_count == 2
    stored = vhost.stored.queues["q"]
    assert (stored.properties, list(stored.partitions), stored.paused) == (Q, [3, 4], False)
    assert len(vhost.queues) == 0
    assert not node.logs.partitions


def test_a_deletion_takes_nothing_along(vhost: VirtualHost) -> None:
    """What goes with it has changes of its own: the exchange is auto-delete, and stays."""
    declare(vhost)
    apply(vhost, queue_change(V, Q, [], deleted=True))
    assert vhost.routing.route("x/y", b"a") == ()
    assert vhost.routing.has_departed("queue", "q")
    assert vhost.binding_count == 2
    assert not vhost.stored.queues
    for each in (FIRST, SECOND):
        written = binding_change(V, each).value
        apply(vhost, binding_change(V, each, deleted=True), before=written)
    assert not vhost.routing.has_departed("queue", "q")
    assert vhost.binding_count == 0
    assert vhost.routing.has_exchange("x/y")
    apply(vhost, queue_change(V, Q, [5], paused=True))
    assert vhost.stored.queues["q"].paused
    assert vhost.routing.route("x/y", b"a") == ()


def test_a_deleted_exchange_is_gone_when_its_last_binding_is(vhost: VirtualHost) -> None:
    declare(vhost)
    before = vhost._budget.bytes
    apply(vhost, exchange_change(V, X, deleted=True))
    assert not vhost.routing.has_exchange("x/y")
    for each in (FIRST, SECOND):
        assert vhost.routing.has_departed("exchange", "x/y")
        written = binding_change(V, each).value
        apply(vhost, binding_change(V, each, deleted=True), before=written)
    assert not vhost.routing.has_departed("exchange", "x/y")
    assert vhost.routing.bindings_to_queue("q")[1:] == []
    assert vhost._budget.bytes < before


def test_bindings_of_what_is_not_there_are_left_to_who_leads(vhost: VirtualHost) -> None:
    apply(vhost, exchange_change(V, X), binding_change(V, FIRST))
    assert vhost.routing.has_departed("queue", "q")
    with pytest.raises(QueueNotFound):
        vhost.routing.bindings_to_queue("q")


def test_exchanges_with_logs_keep_their_numbers(vhost: VirtualHost) -> None:
    history = Exchange("h", "x-recent-history", durable=True)
    delayed = Exchange(
        "d", "x-delayed-message", durable=True, arguments={"x-delayed-type": "topic"}
    )
    numbers = vhost.stored.partitions
    apply(vhost, exchange_change(V, history, 7), exchange_change(V, delayed))
    apply(vhost, delay_change(V, "d", [8, 9]))
    assert numbers == {"h": [7], "d": [8, 9]}
    apply(vhost, delay_change(V, "d", [], deleted=True), exchange_change(V, delayed, deleted=True))
    assert numbers == {"h": [7]}


def test_groups_are_those_of_the_last_change(vhost: VirtualHost) -> None:
    declare(vhost)
    groups = vhost.hosted.groups
    made = [GroupRecord("q", name, at, [0, at], None) for at, name in enumerate("gh", 1)]
    apply(vhost, next_cursor_change(V, "q", 3), *(group_change(V, each) for each in made))
    assert groups.cursors("q", 1) == {1: 1, 2: 2}
    moved = msgspec.structs.replace(made[0], cursor=3, begins=[5, 6])
    apply(vhost, group_change(V, moved), group_change(V, made[1], deleted=True))
    assert groups.cursors("q", 1) == {3: 6}
    apply(vhost, group_change(V, moved, deleted=True), next_cursor_change(V, "q", None))
    assert groups.cursors("q", 0) == {}


@pytest.mark.parametrize("change", [exchange_change(V, X), queue_change(V, Q, [1])])
def test_a_record_that_cannot_be_read_is_named(vhost: VirtualHost, change: Change) -> None:
    with pytest.raises(MetadataCorrupt, match=change.key.decode()):
        apply(vhost, Change(change.key, b'{"name": 1}'))
