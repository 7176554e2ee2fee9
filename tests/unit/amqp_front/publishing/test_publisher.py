"""From runs of publishes to queues, replies, returns and confirms, however they were cut into runs."""

import asyncio
from array import array
from typing import Any, cast

import pytest
from pamqp import commands
from support.frame_samples import publish, some_properties
from support.loop_services import scheduler_on
from support.queue_samples import Node, Taker, bodies, declare_queue, delete_queue, fill
from support.waiting import until
from unit.amqp_front.publishing_channel import Channel, held, runs
from unit.vhosts.sessions.session_pipe import PipedFront, ScriptedLeader

from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.wire.errors import (
    ACCESS_REFUSED,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    AmqpError,
)
from routelog.amqp_front.wire.properties import visible_properties
from routelog.amqp_front.wire.single_run import LOOKED_AT_MAX
from routelog.broker.loop.cork import Cork
from routelog.broker.waiting.consumer_gates import WAIT_SECONDS_MAX, ConsumerGates
from routelog.exchanges import Binding, Exchange, ExchangeNotFound
from routelog.log_backend import BLIND_COPIES, JournalFailed, Records, SystemClock
from routelog.vhosts import (
    AccessRefused,
    QueueProperties,
    TopicPermission,
)
from routelog.vhosts.publishing.decision import KEYS_MAX, LONG_KEY
from routelog.vhosts.queues.backlog import BACKLOG_MESSAGES_MIN, RATE_SECONDS
from routelog.vhosts.sessions.remote_exchange import RemoteExchanges, RemoteRoute
from routelog.vhosts.sessions.session_message import Kind, records_of


class Asker:
    """Waits for replies."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []

    def reply(self, records: Records) -> None:
        self.replies += [records.body(at) for at in range(records.count)]


def send(publisher: Publisher, *messages: bytes) -> None:
    """All messages in one read."""
    for run in runs(b"".join(messages)):
        for checked in publisher.check(run):
            publisher.publish(checked)


def test_each_message_reaches_the_queue_of_its_key(node: Node, publisher: Publisher) -> None:
    keys = ["one", "two", "none", "one", "one", "two"]
    send(publisher, *(publish(1, "", key, f"m{at}".encode()) for at, key in enumerate(keys)))
    assert held(node, "one") == ["m0", "m3", "m4"]
    assert held(node, "two") == ["m1", "m5"]


def test_a_message_for_several_queues_is_kept_once(node: Node, publisher: Publisher) -> None:
    for name in ("one", "two"):
        node.vhost.bind(Binding("amq.topic", name, "queue", "all.#"))
    send(publisher, *(publish(1, "amq.topic", "all", b"m%d" % at) for at in range(3)))
    first, second = (node.vhost.queues[name].get() for name in ("one", "two"))
    assert first is not None
    assert second is not None
    assert first.records is second.records
    assert bodies(first) == ["m0"]


def test_a_queue_keeps_the_publishers_order_when_it_is_in_several_routes(
    node: Node, publisher: Publisher
) -> None:
    node.vhost.bind(Binding("amq.topic", "one", "queue", "#"))
    node.vhost.bind(Binding("amq.topic", "two", "queue", "b"))
    send(publisher, *(publish(1, "amq.topic", key, key.encode()) for key in ("a", "b", "a", "b")))
    assert held(node, "one") == ["a", "b", "a", "b"]
    assert held(node, "two") == ["b", "b"]


def test_keys_that_lead_the_same_way_keep_the_publishers_order(
    node: Node, publisher: Publisher
) -> None:
    node.vhost.bind(Binding("amq.topic", "one", "queue", "#"))
    keys = ("a", "b", "b", "c", "a", "c", "b")
    send(
        publisher, *(publish(1, "amq.topic", key, f"{at}".encode()) for at, key in enumerate(keys))
    )
    assert held(node, "one") == [f"{at}" for at in range(len(keys))]


def test_what_no_queue_wants_is_returned_if_mandatory(
    publisher: Publisher, channel: Channel
) -> None:
    keys = ["none", "one", "nowhere"]
    send(publisher, *(publish(1, "", key, b"m", mandatory=True) for key in keys))
    returned = channel.sent()
    assert [(each.reply_code, each.routing_key) for each in returned] == [
        (312, "none"),
        (312, "nowhere"),
    ]
    send(publisher, publish(1, "", "none", b"m"))
    assert channel.sent() == []


def test_carbon_copies_reach_further_queues_once(node: Node, publisher: Publisher) -> None:
    properties = some_properties(headers={"CC": ["two", "one"], "BCC": ["two"]})
    send(publisher, publish(1, "", "one", b"m", properties))
    assert held(node, "two") == ["m"]
    delivery = node.vhost.queues["one"].get()
    assert delivery is not None
    assert delivery.records.attributes & BLIND_COPIES
    assert b"BCC" not in visible_properties(delivery.records, 0)
    assert b"CC" in visible_properties(delivery.records, 0)
    assert node.vhost.queues["one"].get() is None


# -- direct replies


def test_a_reply_goes_to_the_one_who_asked(publisher: Publisher, channel: Channel) -> None:
    asker = Asker()
    address = channel.services.replies.open(asker)
    send(publisher, publish(1, "", address, b"r0"), publish(1, "", address, b"r1"))
    assert asker.replies == [b"r0", b"r1"]


def test_replies_in_one_read_go_each_to_the_one_who_asked(
    node: Node, publisher: Publisher, channel: Channel
) -> None:
    first, second = Asker(), Asker()
    one, other = (channel.services.replies.open(asker) for asker in (first, second))
    send(
        publisher,
        publish(1, "", one, b"r0"),
        publish(1, "", other, b"r1"),
        publish(1, "", "one", b"m"),
        publish(1, "", one, b"r2"),
    )
    assert (first.replies, second.replies) == ([b"r0", b"r2"], [b"r1"])
    assert held(node, "one") == ["m"]


def test_a_reply_to_somebody_who_is_gone_is_returned_if_mandatory(
    publisher: Publisher, channel: Channel
) -> None:
    address = channel.services.replies.open(Asker())
    channel.services.replies.close(address)
    send(publisher, publish(1, "", address, b"r", mandatory=True))
    assert [each.routing_key for each in channel.sent()] == [address]


# -- refusals


def refused(publisher: Publisher, *messages: bytes) -> AmqpError:
    with pytest.raises(AmqpError) as caught:
        send(publisher, *messages)
    return caught.value


def test_immediate_and_internal_and_unknown_are_refused(node: Node, publisher: Publisher) -> None:
    node.vhost.declare_exchange(Exchange("inner", "fanout", internal=True))
    assert refused(publisher, publish(1, "inner", "k", b"m")).code == ACCESS_REFUSED
    assert refused(publisher, publish(1, "", "one", b"m", immediate=True)).code == NOT_IMPLEMENTED
    with pytest.raises(ExchangeNotFound):
        send(publisher, publish(1, "nowhere", "k", b"m"))
    assert held(node, "one") == []


@pytest.mark.parametrize(
    "bad",
    [
        some_properties(user_id="root"),
        some_properties(expiration="soon"),
        some_properties(headers={"CC": "no array"}),
        some_properties(reply_to="amq.rabbitmq.reply-to"),
    ],
)
def test_what_came_before_a_refused_message_in_the_same_read_is_kept(
    node: Node, publisher: Publisher, bad: commands.Basic.Properties
) -> None:
    good = publish(1, "", "one", b"before")
    error = refused(publisher, good, good, publish(1, "", "one", b"bad", bad), good)
    assert error.code == PRECONDITION_FAILED
    assert held(node, "one") == ["before", "before"]


def test_topic_permissions_let_through_what_comes_before_the_first_key_that_is_refused(
    node: Node, publisher: Publisher, channel: Channel
) -> None:
    for name, kind in (("topics", "topic"), ("plain", "fanout")):
        node.vhost.declare_exchange(Exchange(name, kind))
        node.vhost.bind(Binding(name, "one", "queue", "#"))
        channel.book.put_topic(channel.user, "/", TopicPermission(name, "^a", ""))
    messages = [publish(1, "topics", key, key.encode()) for key in ("a1", "a2", "b", "a3")]
    with pytest.raises(AccessRefused, match="topic 'b' in exchange 'topics'"):
        send(publisher, *messages)
    assert held(node, "one") == ["a1", "a2"]
    send(publisher, publish(1, "plain", "b", b"not a topic"))
    send(publisher, publish(1, "", "one", b"default"))
    assert held(node, "one") == ["not a topic", "default"]
    copied = some_properties(headers={"CC": ["a1", "b"]})
    with pytest.raises(AccessRefused, match="topic 'b'"):
        send(publisher, publish(1, "topics", "a1", b"m", copied))
    channel.book.remove_topic(channel.user, "/", "topics")
    send(publisher, *messages)
    assert held(node, "one") == ["a1", "a2", "b", "a3"]


# -- what one turn of the loop bears


class HurriedClock(SystemClock):
    """A clock whose every look finds that much time has gone."""

    def __init__(self) -> None:
        self.looks = 0

    def monotonic(self) -> float:
        """See `Clock`."""
        self.looks += 1
        return float(self.looks)


@pytest.fixture
def hurried(channel: Channel) -> Publisher:
    channel.services.scheduler = scheduler_on(None, HurriedClock())
    return Publisher(cast(Any, channel))


def carried(publisher: Publisher, messages: list[bytes]) -> list[int]:
    """How many messages each turn carried out, until there was none left."""
    counts: list[int] = []
    while messages:
        (run,) = runs(b"".join(messages))
        counts.append(publisher.carry(run))
        messages = messages[counts[-1] :]
    return counts


def test_new_keys_are_routed_while_there_is_time_and_the_rest_comes_again(
    node: Node, hurried: Publisher, channel: Channel
) -> None:
    node.vhost.bind(Binding("amq.topic", "one", "queue", "#"))
    keys = [f"k{number}" for number in range(50)]
    hurried.confirming = True
    messages = [publish(1, "amq.topic", key, key.encode()) for key in keys]
    counts = carried(hurried, messages)
    assert len(counts) > 5
    assert sum(counts) == len(keys)
    node.turns.run()
    (ack,) = channel.sent()
    assert (ack.delivery_tag, ack.multiple) == (len(keys), True)
    assert held(node, "one") == keys
    assert carried(hurried, messages) == [len(keys)], "their routes are known"


def test_a_turn_may_end_after_each_long_key(node: Node, hurried: Publisher) -> None:
    node.vhost.bind(Binding("amq.topic", "one", "queue", "#"))
    node.vhost.bind(Binding("amq.headers", "one", "queue", ""))
    for exchange in ("amq.topic", "amq.headers"):
        long, short = ("a" * bytes_ for bytes_ in (LONG_KEY, LONG_KEY - 1))
        messages = [publish(1, exchange, f"{long}{number}", b"m") for number in range(3)]
        assert carried(hurried, messages) == [1, 1, 1]
        messages = [publish(1, exchange, f"{short}{number}", b"m") for number in range(3)]
        assert carried(hurried, messages) == [3]


def test_messages_whose_headers_decide_are_routed_while_there_is_time(
    node: Node, hurried: Publisher
) -> None:
    node.vhost.bind(Binding("amq.headers", "one", "queue", "", {"x": 1}))
    some = some_properties(headers={"x": 1})
    names = [f"{number}" for number in range(100)]
    counts = carried(
        hurried, [publish(1, "amq.headers", "", name.encode(), some) for name in names]
    )
    assert len(counts) > 3
    assert held(node, "one") == names


def test_messages_that_are_looked_at_one_by_one_take_several_turns(
    node: Node, hurried: Publisher
) -> None:
    some = some_properties(expiration="60000")
    names = [f"{number}" for number in range(LOOKED_AT_MAX * 2 + 1)]
    counts = carried(hurried, [publish(1, "", "one", name.encode(), some) for name in names])
    assert counts == [LOOKED_AT_MAX, LOOKED_AT_MAX, 1]
    assert held(node, "one") == names


def test_a_refused_message_is_refused_in_its_turn(node: Node, hurried: Publisher) -> None:
    good, bad = (some_properties(expiration=text) for text in ("60000", "soon"))
    messages = [publish(1, "", "one", b"m", good) for _ in range(LOOKED_AT_MAX + 3)]
    messages += [publish(1, "", "one", b"bad", bad), publish(1, "", "one", b"never", good)]
    with pytest.raises(AmqpError, match="soon"):
        carried(hurried, messages)
    assert held(node, "one") == ["m"] * (LOOKED_AT_MAX + 3)


def test_with_time_to_spare_a_run_is_carried_out_whole(node: Node, publisher: Publisher) -> None:
    messages = [publish(1, "", "one", b"m") for _ in range(KEYS_MAX + 1)]
    assert carried(publisher, messages) == [len(messages)]
    messages = [publish(1, "", ("one", "two")[at % 2], b"m") for at in range(KEYS_MAX + 1)]
    assert carried(publisher, messages) == [KEYS_MAX, 1]


def test_messages_that_go_too_many_ways_come_again(
    node: Node, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.vhosts.publishing.decision.ROUTES_MAX", 1)
    keys = ("one", "one", "two", "one", "one")
    messages = [publish(1, "", key, b"%d" % at) for at, key in enumerate(keys)]
    assert carried(publisher, messages) == [2, 1, 2]
    assert held(node, "one") == ["0", "1", "3", "4"]
    assert held(node, "two") == ["2"]


def test_replies_and_messages_for_queues_share_a_run_in_several_turns(
    node: Node, publisher: Publisher, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker = Asker()
    address = channel.services.replies.open(asker)
    keys = [address, "one"] * LOOKED_AT_MAX
    messages = [publish(1, "", key, b"%d" % at) for at, key in enumerate(keys)]
    monkeypatch.setattr(type(channel.services.clock), "monotonic", lambda _: 1.0)
    assert carried(publisher, messages) == [LOOKED_AT_MAX, LOOKED_AT_MAX]
    assert asker.replies == [b"%d" % at for at in range(0, len(keys), 2)]
    assert held(node, "one") == [f"{at}" for at in range(1, len(keys), 2)]


# -- confirms


def test_confirms_cover_what_was_routed_and_what_was_not(
    node: Node, publisher: Publisher, channel: Channel
) -> None:
    publisher.confirming = True
    keys = ["one", "none", "two", "one"]
    send(publisher, *(publish(1, "", key, b"m") for key in keys))
    assert channel.sent() == []
    node.turns.run()
    (ack,) = channel.sent()
    assert (ack.delivery_tag, ack.multiple) == (4, True)
    send(publisher, publish(1, "", "one", b"m"))
    node.turns.run()
    (ack,) = channel.sent()
    assert (ack.delivery_tag, ack.multiple) == (5, False)


def test_returns_come_before_their_confirm(
    node: Node, publisher: Publisher, channel: Channel
) -> None:
    publisher.confirming = True
    send(publisher, publish(1, "", "none", b"m", mandatory=True))
    node.turns.run()
    assert [type(each).__name__ for each in channel.sent()] == ["Return", "Ack"]


async def test_what_reaches_nobody_is_confirmed_when_the_journal_has_the_reason(
    node: Node, publisher: Publisher, channel: Channel
) -> None:
    queue, declared = declare_queue(node.vhost, QueueProperties("gone", durable=True), object())
    assert declared is not None
    await declared
    publisher.confirming = True
    removed = delete_queue(node.vhost, queue)
    assert removed is not None
    send(publisher, publish(1, "", "gone", b"m"))
    node.turns.run()
    assert channel.sent() == []
    await removed
    node.turns.run()
    assert [type(each).__name__ for each in channel.sent()] == ["Ack"]


async def test_a_persistent_publish_is_confirmed_when_the_journal_has_it(
    node: Node, publisher: Publisher, channel: Channel
) -> None:
    done = declare_queue(node.vhost, QueueProperties("durable", durable=True), object())[1]
    assert done is not None
    await done
    publisher.confirming = True
    send(publisher, publish(1, "", "durable", b"m", some_properties(delivery_mode=2)))
    node.turns.run()
    assert channel.sent() == []
    node.logs.progress.advance(*[node.logs.journal.durable + 1] * 2)
    assert [type(each).__name__ for each in channel.sent()] == ["Ack"]


def test_a_closed_channel_confirms_what_is_known_and_nothing_more(
    node: Node, publisher: Publisher, channel: Channel
) -> None:
    publisher.confirming = True
    send(publisher, publish(1, "", "one", b"m"))
    publisher.close()
    assert [ack.delivery_tag for ack in channel.sent()] == [1]
    send(publisher, publish(1, "", "one", b"m"))
    node.turns.run()
    assert channel.sent() == []


async def test_a_failed_journal_refuses_what_waits(
    node: Node, publisher: Publisher, channel: Channel
) -> None:
    done = declare_queue(node.vhost, QueueProperties("durable", durable=True), object())[1]
    assert done is not None
    await done
    publisher.confirming = True
    send(publisher, publish(1, "", "durable", b"m", some_properties(delivery_mode=2)))
    send(publisher, publish(1, "", "two", b"m"))
    node.logs.progress.fail()
    nack, ack = channel.sent()
    assert isinstance(nack, commands.Basic.Nack)
    assert (nack.delivery_tag, nack.multiple) == (1, False)
    assert isinstance(ack, commands.Basic.Ack)  # it waits for no journal
    assert ack.delivery_tag == 2


def full(node: Node, name: str) -> None:
    """A queue that takes one message."""
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    node.vhost.declare_queue(QueueProperties(name, arguments=arguments), object())


def returns_and_confirms(channel: Channel) -> list[str | int]:
    return [getattr(each, "reply_text", None) or each.delivery_tag for each in channel.sent()]


def test_refused_mandatory_messages_come_back_to_who_asks_before_their_nacks(
    node: Node, channel: Channel
) -> None:
    full(node, "full")
    full(node, "other")
    channel.returns_refused = True
    publisher = Publisher(cast(Any, channel))
    publisher.confirming = True
    keys = ["full", "full", "none", "other", "other", "full"]
    send(publisher, *(publish(1, "", key, b"x", mandatory=True) for key in keys))
    node.turns.run()
    of_full, of_other = (f"maxlen: queue '{name}' in vhost '/'" for name in ("full", "other"))
    assert returns_and_confirms(channel) == [
        *("NO_ROUTE", of_full, of_full, of_other),
        *(1, 2, 4, 6),
    ]
    send(publisher, publish(1, "", "full", b"x"))
    node.turns.run()
    assert returns_and_confirms(channel) == [7]


async def test_mandatory_messages_that_a_failed_journal_refuses_come_back(
    node: Node, channel: Channel
) -> None:
    done = declare_queue(node.vhost, QueueProperties("durable", durable=True), object())[1]
    assert done is not None
    await done
    channel.returns_refused = True
    publisher = Publisher(cast(Any, channel))
    publisher.confirming = True
    node.logs.journal.groups.failure = JournalFailed(OSError("no such device"))
    persistent = some_properties(delivery_mode=2)
    send(publisher, publish(1, "", "durable", b"m", persistent, mandatory=True))
    assert returns_and_confirms(channel) == [
        "unavailable: the log cannot be written: no such device",
        1,
    ]


def outcomes(channel: Channel) -> list[tuple[str, int, bool]]:
    return [(each.name, each.delivery_tag, each.multiple) for each in channel.sent()]


def test_what_a_full_queue_refuses_is_nacked_in_its_turn(
    node: Node, channel: Channel, publisher: Publisher
) -> None:
    full(node, "full")
    publisher.confirming = True
    keys = ["one", "full", "full", "one", "full", "two"]
    send(publisher, *(publish(1, "", key, b"x") for key in keys))
    node.turns.run()
    assert outcomes(channel) == [
        ("Basic.Ack", 2, True),
        ("Basic.Nack", 3, False),
        ("Basic.Ack", 4, False),
        ("Basic.Nack", 5, False),
        ("Basic.Ack", 6, False),
    ]
    assert held(node, "one") == ["x", "x"]


def test_what_one_of_several_queues_refuses_is_nacked(
    node: Node, channel: Channel, publisher: Publisher
) -> None:
    full(node, "full")
    for queue in ("one", "full"):
        node.vhost.bind(Binding("amq.fanout", queue, "queue", ""))
    publisher.confirming = True
    send(publisher, *(publish(1, "amq.fanout", "", b"%d" % n) for n in range(3)))
    node.turns.run()
    assert outcomes(channel) == [("Basic.Ack", 1, False), ("Basic.Nack", 3, True)]
    assert held(node, "one") == ["0", "1", "2"]


def test_refusals_among_direct_replies_are_told_of_the_right_messages(
    node: Node, channel: Channel, publisher: Publisher
) -> None:
    full(node, "full")
    publisher.confirming = True
    keys = ["full", "amq.rabbitmq.reply-to.nobody", "full", "one"]
    send(publisher, *(publish(1, "", key, b"x") for key in keys))
    node.turns.run()
    assert outcomes(channel) == [
        ("Basic.Ack", 2, True),
        ("Basic.Nack", 3, False),
        ("Basic.Ack", 4, False),
    ]


def test_refusals_without_confirms_leave_nothing_behind(
    node: Node, channel: Channel, publisher: Publisher
) -> None:
    full(node, "full")
    send(publisher, *(publish(1, "", "full", b"x") for _ in range(3)))
    publisher.confirming = True
    send(publisher, publish(1, "", "one", b"x"))
    node.turns.run()
    assert outcomes(channel) == [("Basic.Ack", 1, False)]


# -- consumers before publishers


def paced(node: Node, channel: Channel) -> None:
    """Let the publishers of a channel wait for consumers."""
    loop = cast(Any, node.turns)
    channel.services.consumer_gates = ConsumerGates(loop, Cork())


def behind(node: Node) -> None:
    """The consumer of "one" takes some of what is ready, and more is left."""
    queue, taker = node.vhost.queues["one"], Taker(10)
    queue.add_consumer(taker)
    fill(queue, 3 * BACKLOG_MESSAGES_MIN, 10)
    for _ in range(9):
        taker.settle_all()
        queue.wake()
        node.turns.pass_seconds(RATE_SECONDS / 2)
    assert queue.is_behind


def test_confirms_of_what_is_added_to_a_queue_that_is_behind_wait(
    node: Node, channel: Channel, publisher: Publisher
) -> None:
    paced(node, channel)
    publisher.confirming = True
    behind(node)
    send(publisher, publish(1, "", "two", b"elsewhere"))
    node.turns.run()
    assert len(channel.sent()) == 1
    send(publisher, publish(1, "", "one", b"one more"))
    node.turns.run()
    assert channel.sent() == []
    node.turns.pass_seconds(WAIT_SECONDS_MAX)
    assert len(channel.sent()) == 1
    assert not channel.waits_for_consumers


def test_who_asks_for_no_confirms_is_read_later_when_a_queue_is_behind(
    node: Node, channel: Channel, publisher: Publisher
) -> None:
    behind(node)
    send(publisher, publish(1, "", "two", b"elsewhere"))
    assert not channel.waits_for_consumers
    send(publisher, publish(1, "", "one", b"one more"))
    assert channel.waits_for_consumers


def test_who_waits_carries_out_no_more_of_its_run(
    node: Node, channel: Channel, publisher: Publisher
) -> None:
    paced(node, channel)
    behind(node)
    some = some_properties(expiration="60000")
    messages = [publish(1, "", "one", b"m", some) for _ in range(LOOKED_AT_MAX + 1)]
    assert carried(publisher, messages) == [LOOKED_AT_MAX, 1]
    publisher.confirming = True
    assert carried(publisher, messages) == [LOOKED_AT_MAX + 1]


def test_a_run_for_several_queues_waits_for_none(
    node: Node, channel: Channel, publisher: Publisher
) -> None:
    behind(node)
    for name in ("one", "two"):
        node.vhost.bind(Binding("amq.fanout", name, "queue", ""))
    send(publisher, publish(1, "amq.fanout", "", b"to both"))
    assert not channel.waits_for_consumers


async def test_what_a_queue_of_another_node_refuses_comes_back_before_its_nack(
    node: Node, channel: Channel
) -> None:
    full(node, "full")
    front = PipedFront(node)
    targets: Any = node.vhost.targets
    targets._queues = {**node.vhost.queues, "full": front.queue(node.vhost.queues["full"])}
    channel.returns_refused = True
    publisher = Publisher(cast(Any, channel))
    publisher.confirming = True

    async def sent(key: str) -> list[str | int]:
        send(publisher, publish(1, "", key, b"x", mandatory=True))
        assert (publisher.fan_out is not None) is (key == "full")
        while publisher.fan_out is not None or front.carry():
            node.turns.run()
            front.carry()
            await asyncio.sleep(0)
        node.turns.run()
        return returns_and_confirms(channel)

    refused = "maxlen: queue 'full' in vhost '/'"
    assert await sent("full") == [1]
    assert await sent("full") == [refused, 2]
    assert await sent("one") == [3]
    send(publisher, publish(1, "", "full", b"x", mandatory=True))
    front.cut()
    await until(lambda: publisher.fan_out is None)
    node.turns.run()
    assert outcomes(channel) == [("Basic.Nack", 4, False)]


async def test_who_is_not_told_of_refusals_waits_for_none(
    node: Node, channel: Channel, publisher: Publisher
) -> None:
    full(node, "full")
    front = PipedFront(node)
    targets: Any = node.vhost.targets
    targets._queues = {**node.vhost.queues, "full": front.queue(node.vhost.queues["full"])}
    for _ in range(3):
        send(publisher, publish(1, "", "full", b"x"))
        assert publisher.fan_out is None
    while front.carry():
        node.turns.run()
    assert held(node, "full") == ["x"]
    assert returns_and_confirms(channel) == []
    assert front.refusals == []


def remote_exchange(node: Node, kind: str) -> ScriptedLeader:
    """The leader of an exchange `x`."""
    leader = ScriptedLeader()
    leader.open()
    node.vhost.stateful_route = RemoteRoute
    node.vhost.targets.turn_to(node.vhost.queues, RemoteExchanges("/", leader.link))
    options = {"durable": False, "auto_delete": False, "internal": False}
    arguments = {"x-delayed-type": "direct"}
    node.vhost.declare_exchange(Exchange("x", kind, arguments=arguments, **options))
    return leader


REMOTE_KINDS = ["x-recent-history", "x-delayed-message"]


@pytest.mark.parametrize("kind", REMOTE_KINDS)
async def test_what_an_exchange_of_the_leader_drops_is_counted(
    node: Node, channel: Channel, kind: str
) -> None:
    leader = remote_exchange(node, kind)
    publisher = Publisher(cast(Any, channel))
    late = some_properties(headers={"x-delay": 1_000})
    for number, dropped in ((1, [0, 2]), (2, []), (3, [1])):
        send(publisher, *[publish(1, "x", "k", b"m", late)] * 3)
        assert publisher.fan_out is None
        leader.said()
        indexes = array("I", dropped).tobytes()
        leader.says(Kind.ROUTED, indexes, number=number, count=len(dropped))
    await until(lambda: channel.counters.drop_unroutable == 3)
    assert channel.sent() == []


@pytest.mark.parametrize("kind", REMOTE_KINDS)
async def test_what_an_exchange_of_the_leader_returns_comes_before_its_confirm(
    node: Node, channel: Channel, kind: str
) -> None:
    leader = remote_exchange(node, kind)
    publisher = Publisher(cast(Any, channel))
    publisher.confirming = True
    late = some_properties(headers={"x-delay": 1_000})
    count = LOOKED_AT_MAX // 2
    send(publisher, *[publish(1, "x", "k", b"m", late, mandatory=True)] * count)
    assert publisher.fan_out is not None
    _, batch = leader.said()
    assert records_of(batch.content).count == count
    leader.says(Kind.ROUTED, array("I", [1, 3]).tobytes(), number=1, count=2)
    await until(lambda: publisher.fan_out is None)
    assert [type(each).__name__ for each in channel.sent()] == ["Return"] * 2
    leader.says(Kind.CONFIRM, number=1, first=1)
    leader.turns.run()
    node.turns.run()
    assert outcomes(channel) == [("Basic.Ack", count, True)]
    assert channel.counters.return_unroutable == 2
