"""What a commit's plan does is what publishing at once would do, whatever decides where messages go."""

import random
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest
from support.frame_samples import publish, some_properties
from support.queue_samples import Node, SetClock, declare_queue
from support.sampling import examples
from unit.amqp_front.publishing_channel import Channel, carry_out, held, runs

from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.transactions.run_planner import RunPlanner
from routelog.amqp_front.wire.command import PublishRun
from routelog.amqp_front.wire.single_run import LOOKED_AT_MAX
from routelog.exchanges import Binding, Exchange
from routelog.log_backend import Records
from routelog.vhosts import QueueProperties, value_of

ONCE = {"x-cache-size": 100}
KEYS = "one", "two", "none"

_Message = tuple[str, bytes, dict[str, Any]]  # routing key, body and headers


@pytest.fixture
def publisher(channel: Channel) -> Publisher:
    """It has all the time in the world."""
    channel.services.clock = SetClock()
    return Publisher(cast(Any, channel))


@pytest.fixture
def planner(node: Node, channel: Channel, publisher: Publisher) -> RunPlanner:
    """Plans for the channel."""
    plan = CommitPlan(node.vhost.routing.version)
    return RunPlanner(cast(Any, channel), publisher.returns, plan)


def checked(publisher: Publisher, messages: Iterable[bytes]) -> list[PublishRun]:
    """The runs of a read of messages to one exchange."""
    (run,) = runs(b"".join(messages))
    return list(publisher.check(run))


def in_turns(run: PublishRun, carry: Callable[[PublishRun], int]) -> int:
    """Carries out a run; returns in how many turns."""
    turns = done = 0
    while done < run.count:
        done += carry(run.part(done, run.count - done) if done else run)
        turns += 1
    return turns


class _Told:
    """Asks for replies, and listens to the firehose."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.traces: list[tuple[bytes, object]] = []

    def reply(self, records: Records) -> None:
        """See `ReplyConsumer`."""
        self.replies += [records.body(at) for at in range(records.count)]

    def published(self, _: object, run: PublishRun, index: int, queues: object) -> None:
        """See `Firehose`."""
        self.traces.append((run.body(index), queues))


@pytest.mark.parametrize("seed", range(examples(60)))
def test_a_plan_does_what_publishing_at_once_would_do(
    node: Node, channel: Channel, publisher: Publisher, planner: RunPlanner, seed: int
) -> None:
    chance, told = random.Random(seed), _Told()
    address = channel.services.replies.open(told)
    if seed % 3 == 0:
        node.vhost.firehose = told
    _declare(node, "now")
    _declare(node, "later")
    planner.plan.version = node.vhost.routing.version
    drawn = [_drawn(chance, address) for _ in range(chance.randrange(1, 12))]
    found = []
    for when in ("now", "later"):
        carry = _carry(publisher) if when == "now" else planner.add
        for kind, messages in drawn:
            frames = [_frames(kind, each, when) for each in messages]
            for run in checked(publisher, frames):
                in_turns(run, carry)
        if when == "later":
            assert held(node, "one") == held(node, "two") == told.replies == told.traces == []
            carry_out(node.vhost.hosted.logs.transaction(), planner.plan)
        returned = [each.routing_key for each in channel.sent()]
        queues = held(node, "one"), held(node, "two")
        found.append((*queues, returned, told.replies, told.traces))
        told.replies, told.traces = [], []
    assert found[0] == found[1]


def _carry(publisher: Publisher) -> Callable[[PublishRun], int]:
    def carry(run: PublishRun) -> int:
        publisher.publish(run)
        return publisher.carried

    return carry


def _declare(node: Node, when: str) -> None:
    # Exchanges that remember keep apart what comes now and later.
    kinds = {
        "topic": ("topic", {}),
        "headers": ("headers", {}),
        "x-message-deduplication": ("x-message-deduplication", ONCE),
        "ways": ("topic", {}),
    }
    for name, (kind, arguments) in kinds.items():
        node.vhost.declare_exchange(Exchange(f"{name} {when}", kind, arguments=arguments))
    for queue in ("one", "two"):
        node.vhost.bind(Binding(f"topic {when}", queue, "queue", f"#.{queue}"))
        node.vhost.bind(Binding(f"x-message-deduplication {when}", queue, "queue", f"{queue}"))
    node.vhost.bind(Binding(f"topic {when}", "two", "queue", "one"))
    node.vhost.bind(Binding(f"headers {when}", "one", "queue", "", {"x-match": "all", "to": "one"}))
    node.vhost.bind(Binding(f"ways {when}", f"x-message-deduplication {when}", "exchange", "#.one"))
    node.vhost.bind(Binding(f"ways {when}", "one", "queue", "#.two"))


def _drawn(chance: random.Random, address: str) -> tuple[str, list[_Message]]:
    kind = chance.choice(("", "", "topic", "headers", "x-message-deduplication", "ways"))
    keys = KEYS if kind else (*KEYS, address)
    few = chance.sample(keys, chance.randrange(1, len(keys) + 1))
    has_copies = chance.random() < 0.3
    messages: list[_Message] = []
    for _ in range(chance.randrange(1, 2 * LOOKED_AT_MAX)):
        headers: dict[str, Any] = {"x-deduplication-header": f"{chance.randrange(40)}"}
        headers["to"] = chance.choice(KEYS)
        if has_copies and chance.random() < 0.2:
            headers[chance.choice(("CC", "BCC"))] = chance.choices(keys, k=2)
        messages.append((chance.choice(few), b"%d" % chance.randrange(10_000), headers))
    return kind, messages


def _frames(kind: str, message: _Message, when: str) -> bytes:
    key, body, headers = message
    exchange = kind and f"{kind} {when}"
    properties = some_properties(headers=headers)
    return publish(1, exchange, key, body, properties, mandatory=kind != "topic")


def test_what_comes_back_is_told_a_few_at_a_time(
    channel: Channel, publisher: Publisher, planner: RunPlanner
) -> None:
    count = 2 * LOOKED_AT_MAX + 1
    messages = [publish(1, "", "none", b"m", mandatory=True)] * count
    for run in checked(publisher, messages):
        assert in_turns(run, planner.add) == 1
    assert len(planner.plan.told) == 3
    for tell in planner.plan.told:
        tell()
    assert len(channel.sent()) == count


def test_a_reply_whose_asker_has_gone_meanwhile_is_dropped(
    node: Node, channel: Channel, publisher: Publisher, planner: RunPlanner
) -> None:
    told = _Told()
    address = channel.services.replies.open(told)
    for run in checked(publisher, [publish(1, "", address, b"r", mandatory=True)]):
        planner.add(run)
    channel.services.replies.close(address)
    carry_out(node.vhost.hosted.logs.transaction(), planner.plan)
    assert told.replies == channel.sent() == []


@pytest.mark.parametrize(("level", "expected"), [("memory", 0), ("os", 1), ("disk", 1)])
async def test_a_key_is_kept_as_its_message_is(
    node: Node, publisher: Publisher, planner: RunPlanner, level: str, expected: int
) -> None:
    asked = {"x-cache-size": 100, "x-cache-persistence": "disk"}
    kind, vhost = "x-message-deduplication", node.vhost
    kept = QueueProperties("kept", durable=True, arguments={"x-durability": level})
    _, declared = declare_queue(vhost, kept, object())
    assert declared is not None
    await declared
    await value_of(vhost.declare_exchange(Exchange("once", kind, durable=True, arguments=asked)))
    await value_of(vhost.bind(Binding("once", "kept", "queue", "")))
    vhost.bind(Binding("once", "one", "queue", ""))
    properties = some_properties(delivery_mode=2, headers={"x-deduplication-header": "a"})
    planner.plan.version = vhost.routing.version
    for run in checked(publisher, [publish(1, "once", "", b"m", properties)]):
        planner.add(run)
    carry_out(vhost.hosted.logs.transaction(), planner.plan)
    memory: Any = vhost.hosted.memories.by_name["once"]
    assert (len(memory), memory.log.partition.next_offset) == (1, expected)
