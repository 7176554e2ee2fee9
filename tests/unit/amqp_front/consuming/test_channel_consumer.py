"""A consumer of a channel: its credit, its deliveries, and what it remembers of them."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.queue_samples import records

from routelog.amqp_front.consuming.channel_consumer import SAMPLED_ONE_IN, ChannelConsumer
from routelog.amqp_front.consuming.unacked import UnackedRun
from routelog.log_backend import Octets
from routelog.vhosts import CREDIT_UNLIMITED, UNCOUNTED, Delivery


class Channel:
    number = 3
    body_frame_max = 4088
    next_tag = 10
    vhost = SimpleNamespace(listeners=())
    counters = UNCOUNTED

    def __init__(self, credit: int = CREDIT_UNLIMITED) -> None:
        self._credit = credit
        self.written: list[Octets] = []
        self.runs: list[UnackedRun] = []
        self.ended: list[ChannelConsumer] = []
        self.faults: list[Exception] = []
        self.sampled: list[Delivery] = []

    def credit(self) -> int:
        return self._credit

    def write_parts(self, parts: Sequence[Octets]) -> None:
        self.written += parts

    def add_unacked(self, run: UnackedRun) -> None:
        self.runs.append(run)

    def consumer_ended(self, consumer: ChannelConsumer) -> None:
        self.ended.append(consumer)

    def sample(self, delivery: Delivery) -> None:
        self.sampled.append(delivery)

    def fail(self, error: Exception) -> None:
        self.faults.append(error)


def consumer_of(channel: Channel, *, no_ack: bool = False, prefetch: int = 0) -> ChannelConsumer:
    return ChannelConsumer(
        channel,
        cast(Any, None),
        "tag",
        no_ack=no_ack,
        exclusive=False,
        priority=0,
        prefetch=prefetch,
    )


def delivery(count: int = 3) -> Delivery:
    batch = records(*(f"m{at}" for at in range(5)))
    source = SimpleNamespace(counters=UNCOUNTED)
    return Delivery(cast(Any, source), batch, 1, count, 71, False)


@pytest.mark.parametrize(
    ("channel_credit", "prefetch", "unacked", "credit"),
    [
        (CREDIT_UNLIMITED, 0, 0, CREDIT_UNLIMITED),
        (CREDIT_UNLIMITED, 5, 0, 5),
        (CREDIT_UNLIMITED, 5, 5, 0),
        (3, 5, 0, 3),
        (3, 0, 100, 3),
        (0, 5, 0, 0),
    ],
)
def test_credit_is_the_smaller_of_the_channels_and_its_own(
    channel_credit: int, prefetch: int, unacked: int, credit: int
) -> None:
    consumer = consumer_of(Channel(channel_credit), prefetch=prefetch)
    consumer.unacked = unacked
    assert consumer.credit() == credit


@pytest.mark.parametrize("used_up", [0, -1, -100])
def test_without_credit_of_the_channel_there_is_none(used_up: int) -> None:
    assert consumer_of(Channel(used_up)).credit() <= 0
    assert consumer_of(Channel(used_up), no_ack=True).credit() == 0


def test_without_acks_a_consumer_has_no_limit_of_its_own() -> None:
    assert consumer_of(Channel(1), no_ack=True, prefetch=1).credit() == CREDIT_UNLIMITED


def test_a_delivery_takes_tags_and_is_remembered() -> None:
    channel = Channel()
    consumer = consumer_of(channel)
    consumer.deliver(delivery())
    assert channel.next_tag == 13
    (run,) = channel.runs
    assert (run.first_tag, run.end_tag, run.offset, run.consumer) == (10, 13, 71, consumer)
    assert consumer.unacked == 3
    (frames,) = channel.written
    assert isinstance(frames, bytes | bytearray)
    assert [frames.count(body) for body in (b"m0", b"m1", b"m2", b"m3", b"m4")] == [0, 1, 1, 1, 0]


def test_a_delivery_without_acks_takes_tags_and_is_forgotten() -> None:
    channel = Channel()
    consumer = consumer_of(channel, no_ack=True)
    consumer.deliver(delivery())
    assert (channel.next_tag, channel.runs, consumer.unacked) == (13, [], 0)
    assert len(channel.written) == 1


def test_a_fault_is_the_channels() -> None:
    channel = Channel()
    consumer_of(channel).deliver(delivery(count=99))
    assert channel.written == []
    assert len(channel.faults) == 1


def test_the_channel_hears_of_the_end() -> None:
    channel = Channel()
    consumer = consumer_of(channel)
    consumer.queue_deleted()
    assert channel.ended == [consumer]


def test_the_first_of_many_deliveries_is_measured() -> None:
    channel = Channel()
    consumer = consumer_of(channel, no_ack=True)
    made = [delivery() for _ in range(SAMPLED_ONE_IN + 2)]
    for each in made:
        consumer.deliver(each)
    assert channel.sampled == [made[0], made[SAMPLED_ONE_IN]]
