"""What is published at once, what a transaction commits, and what the broker posts become the same.

Topologies are random: exchanges of all types, bound to queues and to each other, with alternates.
"""

import random
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from support.frame_samples import publish, some_properties
from support.intake_samples import share
from support.queue_samples import Node, SetClock, bodies, declare_queue, got, running_node
from unit.amqp_front.publishing_channel import Channel, carry_out

from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.transactions.commit_planning import CommitPlanning
from routelog.amqp_front.transactions.transaction import Transaction
from routelog.amqp_front.wire.command import PublishRun
from routelog.amqp_front.wire.frame_cutter import FrameCutter
from routelog.amqp_front.wire.properties import Properties, copies
from routelog.exchanges import EXCHANGE_TYPES, Binding, Exchange, RoutingError, held_name
from routelog.log_backend import PERSISTENT, Progress, Records
from routelog.vhosts import QueueProperties, VirtualHost
from routelog.vhosts.publishing.internal_publish import OutgoingMessage

QUEUES = "one", "two", "three", "four"
KEYS = *QUEUES, "one.two", "two.three", "none", "7"
PATTERNS = *KEYS, "#", "*.two", "one.#", "*"
READ_MESSAGES = 100
ASKER = "amq.rabbitmq.reply-to.asker"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "x-message-deduplication": {"x-cache-size": 100},
    "x-delayed-message": {"x-delayed-type": "topic"},
    "x-recent-history": {"x-recent-history-length": 3},
}


@dataclass(frozen=True)
class Message:
    """Something to be published; the number is its body."""

    exchange: str
    key: str
    number: int
    mandatory: bool
    delivery_mode: int
    headers: dict[str, Any]


class Told:
    """Asks for replies, and listens to the firehose."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.traces: list[tuple[bytes, list[str]]] = []

    def reply(self, records: Records) -> None:
        """See `ReplyConsumer`."""
        self.replies += [records.body(at) for at in range(records.count)]

    def published(self, _: object, run: PublishRun, index: int, queues: list[str]) -> None:
        """See `Firehose`."""
        self.traces.append((run.body(index), queues))


class Side:
    """A vhost, and a channel that publishes to it."""

    def __init__(self, node: Node, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.channel = Channel(vhost, Progress(node.turns.call_soon, float))
        self.channel.services.clock = SetClock()  # it has all the time in the world
        self.publisher = Publisher(cast(Any, self.channel))
        self.told = Told()
        self.channel.services.replies._consumers[ASKER.encode()] = self.told

    def frames(self, message: Message) -> bytes:
        """The frames of a message."""
        mode, headers = message.delivery_mode, message.headers
        content = b"%d" % message.number, some_properties(headers=headers, delivery_mode=mode)
        return publish(1, message.exchange, message.key, *content, mandatory=message.mandatory)

    def read(self, messages: list[Message]) -> Iterator[PublishRun]:
        """The checked runs of messages; one may be looked at until the next one is asked for."""
        cutter = FrameCutter(131_072)
        for first in range(0, len(messages), READ_MESSAGES):
            frames = b"".join(map(self.frames, messages[first : first + READ_MESSAGES]))
            cutter.receive_into(b"")[: len(frames)] = frames
            cutter.received(len(frames), 131_072)
            while (run := cutter.next(False)) is not None:
                yield from self.publisher.check(cast(PublishRun, run))

    def publish(self, messages: list[Message]) -> None:
        """Carry them out at once."""
        for run in self.read(messages):
            done = 0
            while done < run.count:
                self.publisher.publish(run.part(done, run.count - done) if done else run)
                done += self.publisher.carried

    def commit(self, messages: list[Message]) -> None:
        """Keep them in a transaction, plan it and carry that out."""
        transaction = Transaction(share())
        for run in self.read(messages):
            transaction.publish(run)
        returns = self.publisher.returns
        planning = CommitPlanning(cast(Any, self.channel), returns, transaction.kept)
        while (plan := planning.go_on()) is None:
            pass
        assert self.told.replies == self.told.traces == []
        carry_out(self.vhost.hosted.logs.transaction(), plan)

    def post(self, messages: list[Message]) -> None:
        """Let the broker publish them."""
        for run in self.read(messages):
            for at, key in enumerate(run.keys()):
                raw = run.properties(at)
                keys = key, *copies(Properties(raw).headers())
                outgoing = OutgoingMessage(raw, keys, run.body(at))
                attributes = PERSISTENT if run.persistent else 0
                self.vhost.post.publish(run.exchange.decode(), [outgoing], attributes)

    def became(self, node: Node, exchanges: Iterable[str]) -> dict[str, list[str] | int]:
        """What each queue holds, and each exchange remembers or holds until it is due."""
        found: dict[str, list[str] | int] = {}
        for name in exchanges:
            kind = self.vhost.routing.exchange(name).type
            if (held := self.vhost.hosted.delays.recipient(held_name(name))) is not None:
                found[f"held by {name}"] = held.count
            if kind == "x-recent-history":
                queue = declare_queue(self.vhost, QueueProperties(f"of {name}"), object())[0]
                self.vhost.bind(Binding(name, queue.name, "queue", ""))
        node.turns.run()
        for name, queue in self.vhost.queues.items():
            taken: list[str] = []
            while (delivery := got(queue)) is not None:
                taken += bodies(delivery)
            found[name] = taken
        return found


def declared(vhost: VirtualHost, chance: random.Random) -> list[str]:
    """Declares a random topology; returns its exchanges."""
    for name in QUEUES:
        vhost.declare_queue(QueueProperties(name), object())
    names = [f"exchange {number}" for number in range(chance.randrange(1, 9))]
    for name in names:
        kind = chance.choice(sorted(EXCHANGE_TYPES))
        arguments = dict(ARGUMENTS.get(kind, {}))
        if chance.random() < 0.4:
            arguments["alternate-exchange"] = chance.choice(names)
        vhost.declare_exchange(Exchange(name, kind, arguments=arguments))
    for _ in range(chance.randrange(3 * len(names) + 1)):
        source, key = chance.choice(names), chance.choice(PATTERNS)
        matched: dict[str, Any] = {}
        if vhost.routing.exchange(source).type == "headers":
            matched = {"x-match": chance.choice(("all", "any")), "to": chance.choice(QUEUES)}
        if vhost.routing.exchange(source).type == "x-consistent-hash":
            key = f"{chance.randrange(1, 4)}"
        try:
            if chance.random() < 0.4:
                vhost.bind(Binding(source, chance.choice(names), "exchange", key, matched))
            else:
                vhost.bind(Binding(source, chance.choice(QUEUES), "queue", key, matched))
        except RoutingError:
            pass  # not every type takes every key, or exchanges
    return ["", *names, "amq.topic"]


def drawn(chance: random.Random, exchanges: list[str]) -> list[Message]:
    """Messages in runs of some exchanges and flags."""
    messages: list[Message] = []
    for _ in range(chance.randrange(1, 8)):
        exchange, mandatory = chance.choice(exchanges), chance.random() < 0.6
        mode, has_copies = chance.choice((1, 2)), chance.random() < 0.3
        keys = chance.sample((*KEYS, ASKER), chance.randrange(1, 4))
        for _ in range(chance.choice((1, 1, 3, 20, 150))):
            headers: dict[str, Any] = {"to": chance.choice(QUEUES)}
            if chance.random() < 0.7:
                headers["x-deduplication-header"] = f"{chance.randrange(40)}"
            if chance.random() < 0.1:
                headers["x-delay"] = 100_000
            if has_copies and chance.random() < 0.3:
                headers[chance.choice(("CC", "BCC"))] = chance.choices((*KEYS, ASKER), k=2)
            key = chance.choice(keys)
            messages.append(Message(exchange, key, len(messages), mandatory, mode, headers))
    return messages


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """Its random exchanges have the same choice each time."""
    monkeypatch.setattr("routelog.vhosts.vhost.vhost.random_below", lambda below: below // 2)
    async with running_node(tmp_path) as running:
        yield running


@pytest.mark.parametrize("seed", range(100))
async def test_it_is_the_same_whoever_carries_it_out(node: Node, seed: int) -> None:
    now, later, post = [Side(node, await node.vhosts.add(name)) for name in ("a", "b", "c")]
    for side in (now, later, post):
        exchanges = declared(side.vhost, random.Random(seed))
    messages = drawn(random.Random(seed), exchanges)
    if seed % 3 == 0:
        now.vhost.firehose, later.vhost.firehose = now.told, later.told
    now.publish(messages)
    later.commit(messages)
    post.post(messages)
    became = now.became(node, exchanges)
    assert later.became(node, exchanges) == became
    assert post.became(node, exchanges) == became
    assert later.told.replies == now.told.replies
    assert later.told.traces == now.told.traces
    returned = [[each.routing_key for each in side.channel.sent()] for side in (now, later)]
    assert returned[0] == returned[1]
