"""What a channel consumes: credit, limits, and replies to a client that does not read."""

import asyncio
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.queue_samples import Turns, records
from unit.amqp_front.consuming.written_connection import Connection

from routelog.amqp_front.consuming import consumption
from routelog.amqp_front.consuming.channel_consumer import ChannelConsumer
from routelog.amqp_front.consuming.consumption import Consumption
from routelog.amqp_front.consuming.unacked import UnackedRun
from routelog.amqp_front.wire.errors import NOT_ALLOWED, HardError
from routelog.broker.node.delivery_samples import DeliverySamples
from routelog.broker.node.direct_reply import DirectReplies
from routelog.log_backend import encode_records
from routelog.vhosts import (
    CREDIT_UNLIMITED,
    UNCOUNTED,
    ConsumeOptions,
    Delivery,
    Queue,
    QueueProperties,
    then,
    value_of,
)


class Channel:
    number = 1
    body_frame_max = 4088
    flow_active = True
    cancel_notify = True
    reply_address: str | None = None

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.counters = UNCOUNTED
        turns = Turns()
        self.services: Any = SimpleNamespace(
            replies=DirectReplies(),
            config=SimpleNamespace(consumer_timeout_seconds=0.0),
            clock=turns.clock,
            loop=turns,
            settlings=deque(),
            deliveries=DeliverySamples(turns.clock),
        )
        self.left: list[str] = []
        self.vhost: Any = SimpleNamespace(
            listeners=(),
            definitions=SimpleNamespace(consumers_left=self.left.append, carried_out=lambda: None),
        )

    def cancelled(self, frame: bytes) -> None:
        self.connection.write(frame)


@pytest.fixture
def connection() -> Any:
    return Connection()


@pytest.fixture
def channel(connection: Any) -> Channel:
    return Channel(connection)


@pytest.fixture
def consuming(channel: Channel) -> Consumption:
    return Consumption(cast(Any, channel))


@pytest.fixture
def queue() -> Queue:
    return Queue("/", QueueProperties("q"), None, Turns().scheduler)


def begin(consuming: Consumption, queue: Queue, tag: str, *, no_ack: bool) -> ChannelConsumer:
    begun: list[str] = []
    consuming.consume(queue, tag, {}, lambda: begun.append(tag), no_ack=no_ack, exclusive=False)
    assert begun == [tag]
    return consuming.consumers[tag]


def test_a_channel_that_holds_more_than_its_new_prefetch_takes_nothing(
    consuming: Consumption, queue: Queue
) -> None:
    acking = begin(consuming, queue, "a", no_ack=False)
    other = begin(consuming, queue, "b", no_ack=True)
    consuming.limit_channel(5)
    consuming.add_unacked(UnackedRun(1, 6, cast(Any, None), 0, acking))
    for prefetch in (5, 3):
        consuming.limit_channel(prefetch)
        assert (consuming.credit(), acking.credit(), other.credit()) == (0, 0, 0)
    consuming.limit_channel(6)
    assert (acking.credit(), other.credit()) == (1, CREDIT_UNLIMITED)


def test_the_consumers_of_all_channels_of_a_connection_are_limited(
    monkeypatch: pytest.MonkeyPatch, connection: Any, queue: Queue
) -> None:
    monkeypatch.setattr(consumption, "CONNECTION_CONSUMERS_MAX", 3)
    channels = [Channel(connection), Channel(connection)]
    one, other = (Consumption(cast(Any, channel)) for channel in channels)
    for tag in "ab":
        begin(one, queue, tag, no_ack=False)
    last = begin(other, queue, "a", no_ack=False)
    with pytest.raises(HardError) as caught:
        one.free_tag("c")
    assert caught.value.code == NOT_ALLOWED
    other.consumer_ended(last)
    other.consumer_ended(last)
    one.cancel("a")
    one.cancel("a")
    assert connection.consumers == 1
    assert one.close() is None
    assert channels[0].left == [queue.name]
    assert connection.consumers == 0


def test_a_reply_to_a_client_that_does_not_read_is_lost(
    consuming: Consumption, channel: Channel
) -> None:
    consuming.consume_replies("r", no_ack=True)
    channel.connection.outbox_full = True
    consuming.reply(records("unread"))
    assert channel.connection.written == b""
    channel.connection.outbox_full = False
    consuming.reply(records("read"))
    assert b"unread" not in channel.connection.written
    assert channel.connection.written.endswith(b"read\xce")


def test_a_channel_that_closes_while_it_is_delivered_to_takes_nothing_more(
    consuming: Consumption, queue: Queue
) -> None:
    acking = begin(consuming, queue, "a", no_ack=False)
    other = begin(consuming, queue, "b", no_ack=True)
    assert (acking.credit(), other.credit()) == (CREDIT_UNLIMITED, CREDIT_UNLIMITED)
    consuming.close()
    assert (acking.credit(), other.credit()) == (0, 0)


def test_a_channel_that_was_stopped_takes_nothing_and_is_told_nothing_until_it_leaves(
    consuming: Consumption, channel: Channel, queue: Queue
) -> None:
    consumer = begin(consuming, queue, "a", no_ack=False)
    consuming.stop()
    assert consumer.credit() == 0
    assert queue.consumers == [consumer]
    consuming.leave().at_once()
    assert queue.consumers == []
    consuming.consumer_ended(consumer)
    assert channel.connection.written == b""


def test_who_has_left_is_not_told_that_its_queue_is_deleted(
    consuming: Consumption, channel: Channel, queue: Queue
) -> None:
    consumer = begin(consuming, queue, "a", no_ack=False)
    consuming.close()
    consuming.consumer_ended(consumer)  # its return takes several turns: it is still at its queue
    assert channel.connection.written == b""


class LateQueue:
    """A queue whose answers come later."""

    name, vhost, is_stream, partition_count = "late", "/", False, 1

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.attached: list[Any] = []
        self.detached: list[Any] = []
        self.coming: asyncio.Future[Any] = self.loop.create_future()

    def attach(
        self, consumer: Any, options: ConsumeOptions, begin: Callable[[Any], None]
    ) -> "asyncio.Future[None]":
        """See `QueueHandle`."""
        self.attached.append(consumer)
        return then(self.coming, lambda _: begin(self))

    def detach(self, gone: Sequence[Any]) -> None:
        """See `QueueHandle`."""
        self.detached += gone

    def get(self) -> "asyncio.Future[Any]":
        """See `QueueHandle`."""
        return self.coming


async def test_a_consumer_that_comes_after_its_channel_has_gone_leaves_its_queue(
    consuming: Consumption, channel: Channel
) -> None:
    queue: Any = LateQueue()
    answer = consuming.consume(queue, "a", {}, pytest.fail, no_ack=False, exclusive=False)
    assert consuming.consumers == {}
    consuming.close()
    queue.coming.set_result(None)
    await value_of(answer)
    assert queue.detached == queue.attached
    assert channel.left == ["late"]
    assert (consuming.consumers, channel.connection.consumers) == ({}, 0)


async def test_a_consumer_that_another_queue_has_meanwhile_leaves_that_one(
    consuming: Consumption,
) -> None:
    queue, local = LateQueue(), LateQueue()
    front: Any = queue
    answer = consuming.consume(front, "a", {}, pytest.fail, no_ack=False, exclusive=False)
    consuming.close()
    queue.attached[0].queue = local  # its node leads, and has handed it over
    queue.coming.set_result(None)
    await value_of(answer)
    assert (queue.detached, local.detached) == ([], queue.attached)


def test_a_message_that_cannot_be_encoded_stays_in_its_queue(consuming: Consumption) -> None:
    came: list[object] = []
    source = SimpleNamespace(
        give_back=lambda first, end: came.append((first, end)),
        on_ready=lambda: came.append("ready"),
    )
    one, rows = memoryview(bytearray(2)), memoryview(array("i", (0, 0, 0, 2, 0, 0)))
    long = encode_records(one, rows, None, 1, b"", b"k" * 300, 0, 0)
    queue: Any = SimpleNamespace(
        get=lambda: Delivery(cast(Any, source), long, 0, 1, 7, False),
        counts_deliveries=False,
        ready=0,
    )
    with pytest.raises(ValueError, match="longer than 255"):
        consuming.get(queue, no_ack=False)
    assert came == [(7, 8), "ready"]
    assert not list(consuming.unacked)


async def test_a_message_that_comes_after_its_channel_has_gone_goes_back(
    consuming: Consumption, connection: Any
) -> None:
    queue: Any = LateQueue()
    answer = consuming.get(queue, no_ack=True)
    consuming.close()
    came: list[object] = []
    source = SimpleNamespace(
        give_back=lambda first, end: came.append((first, end)),
        on_ready=lambda: came.append("ready"),
    )
    queue.coming.set_result(Delivery(cast(Any, source), records("m"), 0, 1, 7, False))
    await value_of(answer)
    assert came == [(7, 8), "ready"]
    assert connection.written == b""
