"""What a client publishes in no protocol at all: its routes, its batches, what becomes of the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from support.queue_samples import Node, bodies, records, running_node

from routelog.exchanges import BARE_MESSAGE, Binding, Message
from routelog.log_backend import NOTHING, Records, SystemClock
from routelog.vhosts import QueueProperties
from routelog.vhosts.publishing import client_publish
from routelog.vhosts.publishing.client_publish import ClientPublish


class Texts:
    """Messages with a key each, whose bodies are their keys and numbers."""

    persistent = False
    shared_key = None

    def __init__(self, *keys: str) -> None:
        self.single_keys = [key.encode() for key in keys]
        self.asked: list[list[list[int]]] = []

    def keys(self, index: int) -> Sequence[bytes]:
        return (self.single_keys[index],)

    def properties(self, index: int) -> Message:
        return BARE_MESSAGE

    def parts(self, selections: list[list[int]], time: int) -> list[Records]:
        self.asked.append(selections)
        return [
            records(*(f"{self.single_keys[at].decode()}{at}" for at in selection))
            for selection in selections
        ]

    def kept(self, count: int) -> Texts:
        return Texts(*(key.decode() for key in self.single_keys[:count]))


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A node with the queues `a` and `b`."""
    async with running_node(tmp_path) as running:
        for name in ("a", "b"):
            running.vhost.declare_queue(QueueProperties(name), object())
        yield running


@pytest.fixture
def publish(node: Node) -> ClientPublish:
    """To the default exchange."""
    made = ClientPublish(node.vhost, node.turns.scheduler, SystemClock())
    made.appending.begin(False)
    return made


def held(node: Node, queue: str) -> list[str]:
    """What a queue holds, taken out."""
    taken = []
    while (delivery := node.vhost.queues[queue].get()) is not None:
        taken += bodies(delivery)
    return taken


def test_each_queue_gets_one_batch_in_the_clients_order(node: Node, publish: ClientPublish) -> None:
    messages = Texts("a", "b", "nowhere", "a")
    decision = publish.decide(messages, 0, 4)
    assert (decision.end, list(decision.returned)) == (4, [2])
    assert publish.carry_out(messages, decision) == NOTHING
    assert messages.asked == [[[0, 3], [1]]]
    assert (held(node, "a"), held(node, "b")) == (["a0", "a3"], ["b1"])
    assert (publish.appending.queues, publish.appending.routed) == (2, 3)


def test_a_key_that_was_looked_for_is_known_until_the_topology_changes(
    node: Node, publish: ClientPublish
) -> None:
    assert publish.queues_of(b"a") is None
    publish.decide(Texts("a"), 0, 1)
    assert publish.queues_of(b"a") == (node.vhost.queues["a"],)
    assert publish.queues_of(b"nowhere") is None
    node.vhost.declare_queue(QueueProperties("c"), object())
    assert publish.queues_of(b"a") is None


def test_another_exchange_has_its_own_routes_and_counts(node: Node, publish: ClientPublish) -> None:
    node.vhost.bind(Binding("amq.direct", "b", "queue", "a"))
    publish.decide(Texts("a"), 0, 1)
    assert publish.queues_of(b"a") == (node.vhost.queues["a"],)
    publish.turn_to(b"amq.direct", "amq.direct")
    publish.decide(Texts("a"), 0, 1)
    assert publish.queues_of(b"a") == (node.vhost.queues["b"],)
    assert publish.counters is node.vhost.counters.exchange("amq.direct")
    assert (publish.name, publish.exchange) == (b"amq.direct", "amq.direct")


def test_what_has_very_many_queues_is_kept_and_shared_out_in_turns(
    node: Node, publish: ClientPublish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_publish, "SHARED_AT_ONCE", 1)
    messages = Texts("a", "b", "a")
    publish.carry_out(messages, publish.decide(messages, 0, 3))
    while publish.appending.is_under_way:
        publish.appending.go_on()
    assert messages.asked == []  # those that were kept were asked
    assert (held(node, "a"), held(node, "b")) == (["a0", "a2"], ["b1"])
