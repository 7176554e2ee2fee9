"""A node that follows keeps its definitions up, change by change."""

import pytest
from support.known_definitions import known_definitions
from support.queue_samples import Node

from routelog.exchanges import Binding, Exchange
from routelog.log_backend import Change, MetadataCorrupt
from routelog.vhosts import QueueProperties, User, VhostNotFound, VhostRecord
from routelog.vhosts.stored.topology_record import (
    NEXT_PARTITION_KEY,
    binding_change,
    exchange_change,
    queue_change,
    vhost_change,
)
from routelog.vhosts.stored.user_record import user_change, user_deletion

X = Exchange("x", "direct", durable=True)
Q = QueueProperties("q", durable=True)
BINDING = Binding("x", "q", "queue", "k", {"a": 1}, True)
TOPOLOGY = [exchange_change("/", X), queue_change("/", Q, [7])]


def keys_bound(node: Node) -> list[str]:
    return [each.routing_key for each in node.vhost.routing.bindings_from("x")]


def test_a_binding_that_came_and_went_in_one_block_is_gone(node: Node) -> None:
    made, gone = binding_change("/", BINDING), binding_change("/", BINDING, deleted=True)
    node.definitions.apply([*TOPOLOGY, made, gone])
    assert keys_bound(node) == []
    node.definitions.apply([made, gone, made])
    assert keys_bound(node) == ["k"]


def test_a_stored_binding_is_found_by_what_the_store_has(node: Node) -> None:
    made = binding_change("/", BINDING)
    node.definitions.apply([*TOPOLOGY, made])
    node.logs.metadata.apply([made])
    gone = binding_change("/", BINDING, deleted=True)
    node.definitions.apply([gone, made, gone])
    assert keys_bound(node) == []


def test_vhosts_users_and_numbers_come_and_go(node: Node) -> None:
    user, vhost = User("me", "hash", ()), VhostRecord("v w", limits={"max-queues": 3})
    node.definitions.apply(
        [user_change(user), vhost_change(vhost), Change(NEXT_PARTITION_KEY, b"12")]
    )
    assert node.users.find("me") == user
    assert node.vhosts.get("v w").limits == {"max-queues": 3}
    assert node.vhosts.next_partition == 12
    changed = VhostRecord("v w", description="theirs")
    node.definitions.apply([user_deletion("me"), vhost_change(changed)])
    assert node.users.find("me") is None
    assert node.vhosts.get("v w").record == changed
    node.definitions.apply([vhost_change(changed, deleted=True)])
    with pytest.raises(VhostNotFound):
        node.vhosts.get("v w")


def test_what_is_no_definition_or_of_a_deleted_vhost_is_passed_over(node: Node) -> None:
    before = known_definitions(node.vhosts, node.users, node.parameters)
    node.definitions.apply([Change(b"removed/1", b"?"), queue_change("gone", Q, [1])])
    assert known_definitions(node.vhosts, node.users, node.parameters) == before


def test_a_vhost_that_cannot_be_read_is_named(node: Node) -> None:
    with pytest.raises(MetadataCorrupt, match="vhosts/v"):
        node.definitions.apply([Change(b"vhosts/v", b"{}")])


def test_what_cannot_be_carried_out_is_named(node: Node) -> None:
    strange = exchange_change("/", Exchange("x", "x-of-tomorrow", durable=True))
    with pytest.raises(MetadataCorrupt, match=r"exchanges/%2F/x.*x-of-tomorrow"):
        node.definitions.apply([strange])
    with pytest.raises(MetadataCorrupt, match=r"exchanges/%2F/xxx.*255"):
        node.definitions.apply([exchange_change("/", Exchange("x" * 300, "direct", durable=True))])
    with pytest.raises(MetadataCorrupt, match="next-partition"):
        node.definitions.apply([Change(NEXT_PARTITION_KEY, b"many")])
