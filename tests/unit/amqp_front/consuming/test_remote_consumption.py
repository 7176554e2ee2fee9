"""What a channel consumes, gets and settles is the same here and by way of a session."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pamqp import commands
from pamqp import frame as pamqp_frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader
from support.queue_samples import Node, numbered
from unit.amqp_front.consuming.written_connection import Connection
from unit.vhosts.sessions.queue_places import Place
from unit.vhosts.sessions.session_pipe import PipedFront

from routelog.amqp_front.connections.basic_methods import HANDLERS
from routelog.amqp_front.consuming.consumption import Consumption
from routelog.amqp_front.wire.command import ACK, DISCARD, REQUEUE, SettleRun
from routelog.broker.node.delivery_samples import DeliverySamples
from routelog.broker.node.direct_reply import DirectReplies
from routelog.log_backend import MetadataUnavailable, NotReplicated
from routelog.vhosts import QueueProperties
from routelog.vhosts.errors import SessionLost
from routelog.vhosts.sessions.remote_definitions import RemoteDefinitions


class Channel:
    """A channel of a client that may consume from the queues of a place."""

    number = 1
    body_frame_max = 4088
    cancel_notify = True
    reply_address: str | None = None

    def __init__(self, place: Place) -> None:
        vhost, turns = place.node.vhost, place.node.turns
        self.place = place
        self.flow_active = True
        self.connection: Any = Connection()
        self.counters = vhost.counters.channel()
        self.services: Any = SimpleNamespace(
            replies=DirectReplies(),
            config=SimpleNamespace(consumer_timeout_seconds=0.0),
            clock=turns.clock,
            loop=turns,
            settlings=deque(),
            deliveries=DeliverySamples(turns.clock),
            scheduler=turns.scheduler,
            vhosts=place.node.vhosts,
            in_time=lambda done: done,
        )
        link, here = None if place.front is None else place.front.link, cast(Any, vhost)
        definitions = here if link is None else RemoteDefinitions(here, here, link, here)
        self.vhost: Any = SimpleNamespace(listeners=(), definitions=definitions)
        self.consumption = Consumption(cast(Any, self))

    def cancelled(self, frame: bytes) -> None:
        """See `ClientChannel`."""
        self.connection.write(frame)

    # -- what its client does

    async def consume(
        self,
        queue: Any,
        tag: str = "t",
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        **arguments: object,
    ) -> None:
        """Consume, and get what is ready."""
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        answer = self.consumption.consume(
            queue, tag, named, self.begun, no_ack=no_ack, exclusive=exclusive
        )
        await self.place.value(answer)
        await self.place.rest()

    def begun(self) -> None:
        """A consumer has begun."""
        self.connection.write(pamqp_frame.marshal(commands.Basic.ConsumeOk("t"), 1))

    async def settle(self, tag: int, outcome: int = ACK, *, multiple: bool = False) -> None:
        """Settle a delivery, or all up to it."""
        assert self.consumption.settle(SettleRun(1, outcome, tag, tag, multiple)) is None
        await self.place.rest()

    async def got(self) -> list[tuple[str, int, str, bool]]:
        """Method, tag, body and whether it came again, of what was written; then forgotten."""
        await self.place.rest()
        found: list[tuple[str, int, str, bool]] = []
        while self.connection.written:
            used, _, frame = pamqp_frame.unmarshal(self.connection.written)
            self.connection.written = self.connection.written[used:]
            if isinstance(frame, commands.Basic.Deliver | commands.Basic.GetOk):
                found.append((frame.name[6:], frame.delivery_tag, "", bool(frame.redelivered)))
            elif isinstance(frame, ContentBody):
                method, tag, _, again = found[-1]
                found[-1] = method, tag, frame.value.decode(), again
            elif not isinstance(frame, ContentHeader):
                found.append((frame.name[6:], 0, "", False))
        return found

    async def bodies(self) -> list[str]:
        """Bodies of the deliveries, each marked with `+` that came again."""
        return [body + "+" * again for method, _, body, again in await self.got() if body]

    async def close(self) -> None:
        """Close the channel."""
        await self.place.value(self.consumption.close())
        await self.place.rest()

    async def close_only(self) -> None:
        """Close the channel, and do no more than that takes."""
        closing = self.consumption.close()
        await self.only(closing)
        assert closing is not None or self.place.front is None

    def reply(self, done: Any, nowait: bool, kind: Any, **values: Any) -> None:
        """See `Channel`."""
        self.replied = done

    def when(self, answer: Any, then: Callable[[Any], None], method: Any) -> None:
        """See `Channel`; the reply is what `then` makes of it."""
        if not asyncio.isfuture(answer):
            then(answer)
            return

        async def replied() -> None:
            then(await answer)
            if self.replied is not None:
                await self.replied

        self.replied = asyncio.ensure_future(replied())

    async def only(self, done: asyncio.Future[None] | None) -> None:
        """Do no more than something takes."""
        async with asyncio.timeout(30):
            while done is not None and not done.done():
                self.place.node.turns.run()
                if self.place.front is not None:
                    self.place.front.carry()
                await asyncio.sleep(0)


@pytest.fixture
def channel(place: Place) -> Channel:
    return Channel(place)


async def ready(place: Place, queue: Any) -> int:
    """How many messages wait."""
    count: int = (await place.value(queue.counts()))[0]
    return count


async def test_deliveries_follow_consume_ok_and_are_acknowledged(
    place: Place, channel: Channel
) -> None:
    queue = await place.queue()
    await place.publish(queue, *numbered(0, 5))
    await channel.consume(queue)
    first, *deliveries = await channel.got()
    assert first[0] == "ConsumeOk"
    assert [each[1:3] for each in deliveries] == [(at + 1, f"m{at}") for at in range(5)]
    await channel.settle(1)
    await channel.settle(4, multiple=True)
    await channel.settle(5, DISCARD)
    await channel.close()
    assert await ready(place, queue) == 0
    assert place.node.vhost.queues["q"].unacked == 0
    counters = queue.counters
    assert (counters.deliver, counters.ack, counters.rejected) == (5, 4, 1)


async def test_what_is_refused_comes_again_in_order(place: Place, channel: Channel) -> None:
    queue = await place.queue()
    await place.publish(queue, *numbered(0, 5))
    await channel.consume(queue)
    assert await channel.bodies() == numbered(0, 5)
    await channel.settle(2)
    await channel.settle(4, REQUEUE, multiple=True)
    assert await channel.bodies() == ["m0+", "m2+", "m3+"]
    assert channel.consumption.recover() is None
    assert await channel.bodies() == ["m0+", "m2+", "m3+", "m4+"]


async def test_messages_are_delivered_once_more_to_their_consumer(
    place: Place, channel: Channel
) -> None:
    queue, other = await place.queue(), Channel(place)
    await place.publish(queue, *numbered(0, 3))
    await channel.consume(queue)
    await other.consume(queue)
    assert await channel.bodies() == numbered(0, 3)
    assert channel.consumption.redeliver().go_on() is None
    assert await channel.bodies() == ["m0+", "m1+", "m2+"]
    assert await other.bodies() == []
    await channel.settle(0, multiple=True)
    assert place.node.vhost.queues["q"].unacked == 0


async def test_prefetch_counts_of_consumers_and_channels_hold(
    place: Place, channel: Channel
) -> None:
    queue = await place.queue()
    await place.publish(queue, *numbered(0, 20))
    channel.consumption.prefetch = 3
    await channel.consume(queue, "a")
    channel.consumption.limit_channel(4)
    channel.consumption.prefetch = 0
    await channel.consume(queue, "b")
    assert await channel.bodies() == numbered(0, 4)
    await channel.settle(2, multiple=True)
    assert len(await channel.bodies()) == 2
    channel.consumption.limit_channel(0)
    assert len(await channel.bodies()) == 14
    await channel.close()
    assert await ready(place, queue) == 18
    assert place.node.vhost.queues["q"].unacked == 0


async def test_what_exceeds_the_prefetch_count_of_a_channel_stays_ready(
    place: Place, channel: Channel
) -> None:
    queues = [await place.queue("q"), await place.queue("r")]
    local = [place.node.vhost.queues[each.name] for each in queues]
    for queue in queues:
        await place.publish(queue, *numbered(0, 10))
    channel.consumption.limit_channel(3)
    for queue in queues:
        await channel.consume(queue, queue.name)
    held = [tag for _, tag, body, _ in await channel.got() if body]
    for prefetch in (3, 3, 5, 2, 2, 1, 4):
        channel.consumption.limit_channel(prefetch)
        held += [tag for _, tag, body, _ in await channel.got() if body]
        assert len(held) >= prefetch
        assert sum(each.unacked for each in local) == len(held)
        assert [await ready(place, each) for each in queues] == [each.ready for each in local]
        await channel.settle(held.pop(0))
        held += [tag for _, tag, body, _ in await channel.got() if body]
        assert sum(each.unacked for each in local) == len(held)
    left = sum(each.ready for each in local)
    assert sum([await place.value(each.purge()) for each in queues]) == left > 0
    await place.publish(queues[0], *numbered(0, 9))
    channel.consumption.limit_channel(0)
    assert len(await channel.bodies()) == 9
    await channel.close()


async def test_a_channel_with_full_hands_gets_what_comes_back_as_it_has_room(
    place: Place, channel: Channel
) -> None:
    queue = await place.queue(max_priority=3, delivery_limit=1)
    await place.publish(queue, *numbered(0, 5))
    await channel.consume(queue)
    channel.consumption.limit_channel(1)
    await place.publish(queue, *numbered(5, 9))
    assert await channel.bodies() == numbered(0, 5)
    channel.consumption.recover()
    assert await channel.bodies() == ["m0+"]
    assert await ready(place, queue) == 8


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_channel_with_full_hands_takes_nothing_without_acks(
    place: Place, channel: Channel, is_first: bool
) -> None:
    full, queue = await place.queue("full"), await place.queue("q")
    await place.publish(full, "m0", "m1")
    if is_first:
        channel.consumption.limit_channel(1)
    await channel.consume(full, "full")
    await channel.consume(queue, "q", no_ack=True)
    channel.consumption.limit_channel(1)
    await channel.bodies()
    await place.publish(queue, "a", "b")
    assert await channel.bodies() == []
    assert await ready(place, queue) == 2
    channel.consumption.limit_channel(3)
    assert {"a", "b"} <= {*await channel.bodies()}


@pytest.mark.parametrize("what", ["flow", "socket"])
async def test_a_client_that_takes_nothing_costs_no_message(
    place: Place, channel: Channel, what: str
) -> None:
    queue, other = await place.queue(), Channel(place)
    await channel.consume(queue)
    channel.flow_active = what != "flow"
    channel.connection.stalled = what == "socket"
    await place.publish(queue, *numbered(0, 5))
    assert await channel.bodies() == []
    channel.flow_active, channel.connection.stalled = True, False
    channel.consumption.wake()
    assert await channel.bodies() == numbered(0, 5)
    channel.connection.stalled = True
    await place.publish(queue, *numbered(5, 8))
    await place.rest()
    await channel.close()
    await other.consume(queue)
    assert sorted(body.strip("+") for body in await other.bodies()) == numbered(0, 8)


async def test_single_messages_are_got_with_and_without_acks(
    place: Place, channel: Channel
) -> None:
    queue = await place.queue()
    await place.value(channel.consumption.get(queue, no_ack=False))
    await place.publish(queue, *numbered(0, 3))
    for no_ack in (False, True, False):
        await place.value(channel.consumption.get(queue, no_ack=no_ack))
    got = await channel.got()
    assert [each[:3] for each in got[1:]] == [("GetOk", at + 1, f"m{at}") for at in range(3)]
    assert got[0][0] == "GetEmpty"
    await channel.settle(1)
    assert place.node.vhost.queues["q"].unacked == 1
    await channel.close()
    assert await ready(place, queue) == 1


async def test_what_a_closed_channel_held_comes_to_another_one_in_order(
    place: Place, channel: Channel
) -> None:
    queue, other = await place.queue(single_active_consumer=True), Channel(place)
    channel.consumption.prefetch = 600
    await channel.consume(queue)
    await other.consume(queue)
    for at in range(0, 900, 3):
        await place.publish(queue, *numbered(at, at + 3))
    assert await channel.bodies() == numbered(0, 600)
    for tag in range(1, 600, 2):  # more runs than go at once
        channel.consumption.settle(SettleRun(1, ACK, tag, tag, False))
    await channel.close()
    held = [f"m{at}+" for at in range(1, 600, 2)]
    expected = [*held, *numbered(600, 900)]
    came = await other.bodies()
    assert [each for each in came if each in held] == held
    assert [body.strip("+") for body in came] == [body.strip("+") for body in expected]


async def test_a_cancelled_consumer_gets_nothing_more(place: Place, channel: Channel) -> None:
    queue = await place.queue()
    await channel.consume(queue)
    await place.publish(queue, "a")
    consumer = channel.consumption.consumers["t"]
    await place.value(consumer.queue.cancel(consumer))
    channel.consumption.cancel("t")
    await place.publish(queue, "b")
    assert (await channel.bodies()) == ["a"]
    await channel.settle(1)
    assert await place.value(queue.counts()) == (1, 0)


@pytest.mark.parametrize("how", ["exclusive", "single active", "with others", "cancelled", "got"])
@pytest.mark.parametrize("prefetch", [0, 2])
async def test_when_a_channel_is_closed_all_that_it_had_is_back(
    place: Place, channel: Channel, how: str, prefetch: int
) -> None:
    queue = await place.queue(single_active_consumer=how == "single active")
    channel.consumption.prefetch = prefetch
    if how == "got":
        await place.publish(queue, "m0")
        await place.value(channel.consumption.get(queue, no_ack=False))
    else:
        await channel.consume(queue, exclusive=how == "exclusive")
    if how == "cancelled":
        await place.publish(queue, "m0")
        await place.value(queue.cancel(channel.consumption.consumers["t"]))
        channel.consumption.cancel("t")
    await place.publish(queue, *numbered(1, 8))  # some are on their way
    await channel.close_only()
    at_its_node = place.node.vhost.queues["q"]
    assert (at_its_node.unacked, at_its_node.consumer_count) == (0, 0)


@pytest.mark.parametrize("how", ["consumed", "got"])
@pytest.mark.parametrize("count", [1, 5_000])
async def test_when_recovery_is_answered_all_is_back_at_the_queue(
    place: Place, channel: Channel, how: str, count: int
) -> None:
    queue = await place.queue()
    await place.publish(queue, *numbered(0, count))
    if how == "got":
        await place.value(channel.consumption.get(queue, no_ack=False))
    else:
        await channel.consume(queue)
        await place.value(queue.cancel(channel.consumption.consumers["t"]))
        channel.consumption.cancel("t")
    HANDLERS[commands.Basic.Recover](cast(Any, channel), commands.Basic.Recover(requeue=True))
    await channel.only(channel.replied)
    at_its_node = place.node.vhost.queues["q"]
    assert (at_its_node.unacked, at_its_node.ready) == (0, count)


async def test_when_a_cancellation_is_answered_what_the_client_was_not_given_is_back(
    place: Place, channel: Channel
) -> None:
    queue = await place.queue()
    await place.publish(queue, "m0")
    await channel.consume(queue)
    channel.connection.stalled = True
    await place.publish(queue, "m1", "m2")
    await place.rest()
    HANDLERS[commands.Basic.Cancel](cast(Any, channel), commands.Basic.Cancel("t"))
    await channel.only(channel.replied)
    at_its_node = place.node.vhost.queues["q"]
    assert (at_its_node.unacked, at_its_node.ready) == (1, 2)


@pytest.mark.parametrize("count", [1, 5_000])
async def test_what_is_refused_is_there_for_what_is_asked_next(
    place: Place, channel: Channel, count: int
) -> None:
    queue, other = await place.queue(), Channel(place)
    await place.publish(queue, *numbered(0, count))
    await channel.consume(queue)
    await place.value(queue.cancel(channel.consumption.consumers["t"]))
    channel.consumption.cancel("t")
    await channel.bodies()
    settling = channel.consumption.settle(SettleRun(1, REQUEUE, count, count, True))
    await channel.only(settling)
    counted = queue.counts()
    got = other.consumption.get(queue, no_ack=True)
    assert await place.value(counted) == (count, 0)
    await place.value(got)
    assert await other.bodies() == ["m0+"]


async def test_a_channel_that_had_nothing_asks_nobody(place: Place, channel: Channel) -> None:
    queue = await place.queue()
    await place.publish(queue, "m0")
    assert channel.consumption.close() is None


async def test_a_channel_has_closed_when_queues_that_go_with_it_are_gone(
    place: Place, channel: Channel
) -> None:
    properties = QueueProperties("auto", durable=True, auto_delete=True)
    queue = await place.value(place.node.vhost.declare_queue(properties, object()))
    await channel.consume(place.handle(queue))
    closing = channel.consumption.close()
    assert closing is not None
    await place.value(closing)
    assert queue.deleted
    assert place.node.vhost.undecided() is None


async def test_a_channel_closes_when_too_few_nodes_store_what_goes_with_it(
    place: Place, channel: Channel
) -> None:
    async def too_late(done: Awaitable[object]) -> None:
        asyncio.ensure_future(done).cancel()
        raise NotReplicated("too few nodes")

    channel.services.in_time = too_late
    queue = await place.queue()
    await channel.consume(queue)
    channel.vhost = SimpleNamespace(
        listeners=(),
        definitions=SimpleNamespace(consumers_left=lambda name: asyncio.Future()),
    )
    channel.consumption.vhost = channel.vhost
    closing = channel.consumption.close()
    assert closing is not None
    await closing


async def test_a_consumer_is_told_that_its_queue_is_gone(place: Place, channel: Channel) -> None:
    queue = await place.queue()
    await channel.consume(queue)
    await place.publish(queue, "a")
    await place.rest()
    vhost = place.node.vhost
    await place.value(vhost.delete_queue(vhost.queues["q"], if_unused=False, if_empty=False))
    assert [each[0] for each in await channel.got()][-1] == "Cancel"
    await channel.settle(1)
    await channel.close()


async def test_a_group_and_a_reader_are_told_apart(place: Place, channel: Channel) -> None:
    queue = await place.queue(queue_type="stream")
    await place.confirmed((await place.publish(queue, *numbered(0, 3)))[0])
    channel.consumption.prefetch = 2
    await channel.consume(queue, "reader", stream_offset="first")
    await channel.consume(queue, "member", stream_offset="first", group="g")
    reader, member = (channel.consumption.consumers[tag] for tag in ("reader", "member"))
    assert (reader.group, member.group) == ("", "g")
    assert (reader.lease is None, member.lease is None) == (True, False)
    assert sorted(await channel.bodies()) == ["m0", "m0", "m1", "m1"]
    await channel.settle(4, multiple=True)
    assert sorted(await channel.bodies()) == ["m2", "m2"]


async def test_the_next_single_active_consumer_follows_one_that_hangs(
    place: Place, channel: Channel
) -> None:
    queue, other = await place.queue(single_active_consumer=True), Channel(place)
    channel.consumption.prefetch = 2
    await channel.consume(queue, consumer_timeout=1_000)
    await other.consume(queue)
    await place.publish(queue, *numbered(0, 4))
    assert await channel.bodies() == ["m0", "m1"]
    place.node.turns.pass_seconds(5.0)
    assert await other.bodies() == ["m0+", "m1+", "m2", "m3"]


@pytest.mark.parametrize("is_shared", [False, True])
async def test_others_get_what_a_consumer_that_hangs_had(
    place: Place, channel: Channel, is_shared: bool
) -> None:
    queue, other = await place.queue(), Channel(place)
    if is_shared:
        channel.consumption.limit_channel(2)
    else:
        channel.consumption.prefetch = 2
    await channel.consume(queue, consumer_timeout=1_000)
    await place.publish(queue, *numbered(0, 2))
    assert await channel.bodies() == ["m0", "m1"]
    await other.consume(queue, "other")
    place.node.turns.pass_seconds(5.0)
    await place.publish(queue, "m2")
    assert await other.bodies() == ["m0+", "m1+", "m2"]
    await other.settle(3, multiple=True)
    assert await place.value(other.consumption.close()) is None
    await place.publish(queue, *numbered(3, 6))
    assert await channel.bodies() == []  # it holds two tags
    await channel.settle(1)
    assert await channel.bodies() == ["m3"]
    await channel.settle(2)
    assert await channel.bodies() == ["m4"]
    await channel.settle(4, multiple=True)
    assert await channel.bodies() == ["m5"]


# -- what only sessions do


@pytest.fixture
def front(node: Node) -> PipedFront:
    return PipedFront(node)


@pytest.fixture
def remote(node: Node, front: PipedFront) -> Place:
    return Place(node, front)


@pytest.fixture
def client(remote: Place) -> Channel:
    return Channel(remote)


async def test_old_tags_are_settled_in_vain_when_the_session_was_lost(
    remote: Place, front: PipedFront, client: Channel
) -> None:
    queue = await remote.queue()
    await remote.publish(queue, *numbered(0, 4))
    client.consumption.prefetch = 2
    await client.consume(queue)
    assert await client.bodies() == ["m0", "m1"]
    await client.settle(1)
    assert await client.bodies() == ["m2"]
    front.cut()
    await remote.rest()
    front.open()
    assert await client.bodies() == []  # it holds two
    await client.settle(3, multiple=True)
    assert await client.bodies() == ["m1+", "m2+"]
    await client.settle(5, multiple=True)
    assert await client.bodies() == ["m3"]
    assert queue.counters.ack == 3


async def test_who_hangs_keeps_nothing_behind_a_lost_session(
    remote: Place, front: PipedFront, client: Channel
) -> None:
    queue, other = await remote.queue(), Channel(remote)
    client.consumption.prefetch = 2
    await remote.publish(queue, *numbered(0, 4))
    await client.consume(queue, consumer_timeout=1_000)
    assert await client.bodies() == ["m0", "m1"]
    front.cut()
    await remote.rest()
    front.open()
    assert await client.bodies() == []  # two wait for it
    remote.node.turns.pass_seconds(5.0)
    await other.consume(queue)
    assert await other.bodies() == ["m0+", "m1+", "m2", "m3"]
    front.cut()
    await remote.rest()
    front.open()
    await other.settle(4, multiple=True)  # in vain
    assert await other.bodies() == ["m0+", "m1+", "m2+", "m3+"]
    await other.close()
    await client.settle(2, multiple=True)
    assert await client.bodies() == ["m0+", "m1+"]


async def test_who_cancels_is_told_that_the_queue_cannot_be_deleted(
    remote: Place, client: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        raise MetadataUnavailable("the disk failed")

    queue = await remote.queue()
    await client.consume(queue)
    monkeypatch.setattr(remote.node.vhost, "delete_left", fail)
    consumer = client.consumption.consumers["t"]
    with pytest.raises(MetadataUnavailable):
        await remote.value(queue.cancel(consumer))
    assert remote.node.vhost.queues["q"].consumer_count == 0
    assert not queue._consumers


async def test_a_consumer_may_want_to_end_with_its_session(
    remote: Place, front: PipedFront, client: Channel
) -> None:
    queue = await remote.queue()
    await client.consume(queue, cancel_on_ha_failover=True)
    front.cut()
    front.open()
    assert [each[0] for each in await client.got()] == ["ConsumeOk", "Cancel"]
    assert client.consumption.consumers == {}
    assert await remote.value(queue.counts()) == (0, 0)


async def test_a_reader_misses_nothing_while_there_is_no_session(
    remote: Place, front: PipedFront, client: Channel
) -> None:
    queue = await remote.queue(queue_type="stream", partitions=3, partition_strategy="round-robin")
    client.consumption.prefetch = 5
    await remote.confirmed((await remote.publish(queue, *numbered(0, 4)))[0])
    await client.consume(queue, stream_offset="next")
    assert await client.bodies() == []
    local = Place(remote.node, None)
    expected: list[str] = []
    for at in range(10, 40, 10):
        front.cut()
        receipt, _ = await local.publish(remote.node.vhost.queues["q"], *numbered(at, at + 7))
        await local.confirmed(receipt)
        front.open()
        expected += numbered(at, at + 7)
    came: list[str] = []
    tag = 0
    while bodies := await client.bodies():
        came += bodies
        tag += len(bodies)
        await client.settle(tag, multiple=True)
    assert sorted(came) == sorted(expected)


@pytest.mark.parametrize("outcome", ["acked", "returned", "recovered"])
@pytest.mark.parametrize("kind", ["classic", "quorum", "single", "parts", "reader", "group"])
async def test_who_holds_its_prefetch_when_this_node_begins_to_lead_is_served_as_it_settles(
    node: Node, remote: Place, front: PipedFront, client: Channel, kind: str, outcome: str
) -> None:
    arguments: dict[str, dict[str, object]] = {
        "quorum": {"queue_type": "quorum"},
        "single": {"single_active_consumer": True},
        "parts": {"partitions": 2, "partition_strategy": "round-robin"},
        "reader": {"queue_type": "stream"},
        "group": {"queue_type": "stream"},
    }
    place = {
        "reader": {"stream_offset": "first"},
        "group": {"stream_offset": "first", "group": "g"},
    }
    queue = await remote.queue(**arguments.get(kind, {}))
    await remote.confirmed((await remote.publish(queue, *numbered(0, 12)))[0])
    client.consumption.prefetch = 4
    await client.consume(queue, **place.get(kind, {}))
    first = await client.bodies()
    assert len(first) == 4
    front.cut()
    queue.hand_over(node.vhost.queues["q"])
    assert await client.bodies() == []  # it holds four
    if outcome == "recovered":
        assert client.consumption.recover() is None
    else:
        await client.settle(4, ACK if outcome == "acked" else REQUEUE, multiple=True)
    came = [body.strip("+") for body in await client.bodies()]
    assert len(came) == 4
    assert (came == numbered(4, 8)) if kind == "reader" else (sorted(came) == sorted(first))


async def test_a_channel_that_closes_without_a_session_just_leaves(
    remote: Place, front: PipedFront, client: Channel
) -> None:
    queue = await remote.queue()
    await remote.publish(queue, *numbered(0, 4))
    await client.consume(queue)
    front.cut()
    await client.close()
    getting = client.consumption.get(queue, no_ack=True)
    front.link.give_up("no leader")
    with pytest.raises(SessionLost):
        await remote.value(getting)
    front.open()
    assert await remote.value(queue.counts()) == (4, 0)
