"""A broker killed at full speed, and what its queue holds afterwards."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import aio_pika
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from broker_process import BrokerProcess
from child_process import ChildFailed
from publish_window import PublishWindow
from topology import ready_count

ORDERS = "orders"
ORDERS_EXCHANGE = "orders.direct"
ORDER_KEY = "order"
CONFIRMS_MIN = 8_000
KILL_DELAY_SECONDS_MAX = 1.0
PREFETCH = 1_000
_PUBLISH_SECONDS_MAX = 120.0
_READ_SECONDS_MAX = 120.0
_SETTLE_SECONDS_MAX = 15.0
_PAUSE_SECONDS = 0.002


@dataclass(frozen=True)
class Orders:
    """The numbers 0 to `published` - 1: those given to the client library until the crash."""

    published: int
    confirmed: frozenset[int]


@dataclass(frozen=True)
class CrashOutcome:
    """What became of the orders; only `unconfirmed_found` may be anything but what it should."""

    published: int
    confirmed: int
    confirmed_found: int
    unconfirmed_found: int
    missing: int  # confirmed and not there
    duplicates: int
    strange: int  # there and never published
    disordered: int  # neighbours in the wrong order


async def publish_until_killed(broker: BrokerProcess, show: Callable[[str], None]) -> Orders:
    """Publish numbered orders at full speed and kill the broker at a random moment.

    Args:
        show: takes a line of progress, often.

    Raises:
        TimeoutError: the confirms did not come.
        ChildFailed: the connection was lost before the broker was killed.
    """
    connection = await aio_pika.connect(broker.url)
    try:
        async with asyncio.timeout(_PUBLISH_SECONDS_MAX):
            window = await _declare_orders(await connection.channel(publisher_confirms=True))
            killer = asyncio.create_task(_kill_at_random(broker, window, show))
            try:
                while not killer.done():
                    await window.publish(_order(window.published), ORDER_KEY)
                    if window.failed and not killer.done():
                        raise ChildFailed("the broker dropped the publisher before it was killed")
                await killer
            finally:
                killer.cancel()
        async with asyncio.timeout(_SETTLE_SECONDS_MAX):
            await window.drain()
    finally:
        await connection.close()
    return Orders(window.published, frozenset(window.confirmed))


async def read_orders(url: str, show: Callable[[str], None]) -> list[int]:
    """Consume and acknowledge all orders, in the order of delivery."""
    found: list[int] = []
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=PREFETCH)
        waiting = await ready_count(channel, ORDERS)
        queue = await channel.get_queue(ORDERS)
        async with asyncio.timeout(_READ_SECONDS_MAX):
            await _consume(queue, waiting, found, show)
        # More than the broker had promised would be a fault too.
        while (extra := await queue.get(fail=False)) is not None:
            found.append(int(extra.body))
            await extra.ack()
    return found


def compare(orders: Orders, found: Sequence[int]) -> CrashOutcome:
    """Hold what was read against what was published and confirmed."""
    times = Counter(found)
    unconfirmed = set(range(orders.published)) - orders.confirmed
    return CrashOutcome(
        published=orders.published,
        confirmed=len(orders.confirmed),
        confirmed_found=len(orders.confirmed & times.keys()),
        unconfirmed_found=len(unconfirmed & times.keys()),
        missing=len(orders.confirmed - times.keys()),
        duplicates=sum(n - 1 for n in times.values()),
        strange=sum(1 for number in times if not 0 <= number < orders.published),
        disordered=sum(1 for left, right in pairwise(found) if left > right),
    )


async def _declare_orders(channel: AbstractChannel) -> PublishWindow:
    exchange = await channel.declare_exchange(ORDERS_EXCHANGE, ExchangeType.DIRECT, durable=True)
    queue = await channel.declare_queue(ORDERS, durable=True)
    await queue.bind(exchange, ORDER_KEY)
    return PublishWindow(exchange)


def _order(number: int) -> Message:
    return Message(str(number).encode(), delivery_mode=DeliveryMode.PERSISTENT)


async def _kill_at_random(
    broker: BrokerProcess, window: PublishWindow, show: Callable[[str], None]
) -> None:
    while len(window.confirmed) < CONFIRMS_MIN:
        show(f"orders: {window.published:,} published, {len(window.confirmed):,} confirmed")
        await asyncio.sleep(_PAUSE_SECONDS)
    await asyncio.sleep(random.uniform(0, KILL_DELAY_SECONDS_MAX))
    broker.kill()


async def _consume(
    queue: AbstractQueue, waiting: int, found: list[int], show: Callable[[str], None]
) -> None:
    """Take as many deliveries as wait in the queue."""
    complete = asyncio.Event()

    async def take(message: AbstractIncomingMessage) -> None:
        found.append(int(message.body))
        await message.ack()
        if len(found) % PREFETCH == 0:
            show(f"orders: {len(found):,} of {waiting:,} read")
        if len(found) >= waiting:
            complete.set()

    if waiting:
        tag = await queue.consume(take)
        await complete.wait()
        await queue.cancel(tag)
