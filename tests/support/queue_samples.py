"""Queues on a real log store, consumers that write down what they get, and turns made by hand."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from routelog.log_backend import (
    NOTHING,
    PERSISTENT,
    Change,
    LogOptions,
    LogStore,
    MetadataWriter,
    Records,
    Scheduler,
    SystemClock,
    SystemDisk,
    encode_records,
)
from routelog.vhosts import (
    CREDIT_UNLIMITED,
    Delivery,
    GlobalParameters,
    NodeDefinitions,
    Queue,
    QueueProperties,
    QueueStopped,
    ReturnReason,
    UserDirectory,
    VhostDirectory,
    VhostRecord,
    VirtualHost,
    pending,
)

OPTIONS = LogOptions(journal_file_bytes=1024 * 1024)


class SetClock:
    """A clock that goes when it is told, or with each look at its seconds."""

    def __init__(self) -> None:
        self.microseconds = 1_000_000_000_000
        self.look_microseconds = 0

    def now(self) -> int:
        """See `Clock`."""
        return self.microseconds

    def monotonic(self) -> float:
        """See `Clock`."""
        self.microseconds += self.look_microseconds
        return self.microseconds / 1_000_000

    def pause(self, seconds: float) -> None:
        """See `Clock`."""


class Alarm:
    """A call at a time of a clock."""

    def __init__(self, at: int, call: Callable[[], None]) -> None:
        self.at = at
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        """See `asyncio.TimerHandle`."""
        self.cancelled = True


class Turns:
    """What was asked to run after this turn of the event loop, or at a time of the clock.

    Attributes:
        scheduler: of these turns; they are its loop.
    """

    def __init__(self) -> None:
        self.clock = SetClock()
        self._calls: list[Callable[[], None]] = []
        self.scheduler = Scheduler(cast(Any, self), self.clock)
        self._alarms: list[Alarm] = []

    def call_later(self, seconds: float, call: Callable[..., None], *arguments: object) -> Alarm:
        """See the event loop's method of this name."""
        alarm = Alarm(
            self.clock.microseconds + round(seconds * 1_000_000), partial(call, *arguments)
        )
        self._alarms.append(alarm)
        return alarm

    def pass_seconds(self, seconds: float) -> None:
        """Let the clock go on, and what was asked for run when its time has come."""
        end = self.clock.microseconds + round(seconds * 1_000_000)
        self.run()
        while due := [a for a in self._alarms if not a.cancelled and a.at <= end]:
            first = min(due, key=lambda alarm: alarm.at)
            self._alarms.remove(first)
            self.clock.microseconds = max(self.clock.microseconds, first.at)
            first.call()
            self.run()
        self.clock.microseconds = end

    @property
    def waiting(self) -> int:
        """How many calls are to come at a time."""
        return sum(not alarm.cancelled for alarm in self._alarms)

    def create_future(self) -> asyncio.Future[None]:
        """See the event loop's method of this name; of the loop that runs, if one does, it may be awaited."""
        with suppress(RuntimeError):
            return asyncio.get_running_loop().create_future()
        return asyncio.Future(loop=cast(Any, self))

    def get_debug(self) -> bool:
        """See the event loop's method of this name."""
        return False

    def call_soon(self, call: Callable[..., None], *arguments: object, context: Any = None) -> None:
        """See the event loop's method of this name."""
        self._calls.append(partial(call, *arguments) if arguments else call)

    def hurry(self) -> None:
        """From now on each look at the clock finds a share of the scheduler's time used up."""
        self.clock.look_microseconds = 2_000

    def one(self) -> int:
        """Run one turn; returns how many calls it was."""
        calls, self._calls = self._calls, []
        for call in calls:
            call()
        return len(calls)

    def run(self) -> None:
        """Run turns until nothing is asked for any more."""
        for _ in range(1000):
            if not self.one():
                return
        raise AssertionError("there is no end to it")


class Taker:
    """A consumer with a prefetch count (None: no limit) that keeps what it got."""

    tag = "taker"

    def __init__(
        self,
        prefetch: int | None = None,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        priority: int = 0,
    ) -> None:
        self.prefetch = prefetch
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.deliveries: list[Delivery] = []
        self.unacked = 0
        self.deleted = 0
        self.stopped: list[QueueStopped] = []

    def credit(self) -> int:
        """See `Consumer`."""
        return CREDIT_UNLIMITED if self.prefetch is None else self.prefetch - self.unacked

    def deliver(self, delivery: Delivery) -> None:
        """See `Consumer`."""
        assert 1 <= delivery.count <= self.credit()
        self.deliveries.append(delivery)
        if not self.no_ack:
            self.unacked += delivery.count

    def queue_deleted(self) -> None:
        """See `Consumer`."""
        self.deleted += 1

    def queue_stopped(self, error: QueueStopped) -> None:
        """See `Consumer`."""
        self.stopped.append(error)

    def bodies(self) -> list[str]:
        """The bodies delivered, in order."""
        return [body for delivery in self.deliveries for body in bodies(delivery)]

    def take(self) -> list[Delivery]:
        """The deliveries since the last call."""
        taken, self.deliveries = self.deliveries, []
        return taken

    def settle_all(self) -> None:
        """Ack what was delivered since the last call, and have credit again."""
        for delivery in self.take():
            settle(delivery)
            self.unacked -= delivery.count


def settle(delivery: Delivery) -> None:
    """Ack a delivery."""
    delivery.partition.settle(delivery.offset, delivery.offset + delivery.count)


def give_back(delivery: Delivery) -> None:
    """Return a delivery to its queue."""
    end = delivery.offset + delivery.count
    delivery.partition.give_back(delivery.offset, end, ReturnReason.RETURNED)
    delivery.partition.on_ready()


def bodies(delivery: Delivery) -> list[str]:
    """The bodies of a delivery."""
    places = range(delivery.index, delivery.index + delivery.count)
    return [delivery.records.body(at).decode() for at in places]


def records(*contents: str | bytes, persistent: bool = True, time: int = 0) -> Records:
    """A batch with these bodies, no properties and the key `k`, received at a time (us since 1970)."""
    rows, source = array("i"), bytearray(b"\0\0")
    for content in contents:
        octets = content.encode() if isinstance(content, str) else content
        rows.extend((0, 0, 0, 2, len(source), len(octets)))
        source += octets
    attributes = PERSISTENT if persistent else 0
    view = memoryview(source)
    batch: Records = encode_records(
        view, memoryview(rows), None, len(contents), b"", b"k", attributes, time
    )
    return batch


def numbered(first: int, end: int) -> list[str]:
    """`m<first>` to `m<end - 1>`."""
    return [f"m{number}" for number in range(first, end)]


def fill(queue: Queue, count: int, batch: int = 1) -> None:
    """Publish m0 to m<count - 1>, some to a batch."""
    for first in range(0, count, batch):
        queue.publish(records(*numbered(first, min(first + batch, count))), waited=False)


def declare_queue(
    vhost: VirtualHost, properties: QueueProperties, connection: object, **options: bool
) -> tuple[Queue, asyncio.Future[Queue] | None]:
    """Declare a queue; returns it with what to await until the declaration is durable."""
    answer = vhost.declare_queue(properties, connection, **options)
    return vhost.queues[properties.name], pending(answer)


def delete_queue(
    vhost: VirtualHost, queue: Queue, **conditions: bool
) -> asyncio.Future[int] | None:
    """Delete a queue; returns what to await until that is durable."""
    return pending(vhost.delete_queue(queue, **conditions))


def got(queue: Queue) -> Delivery | None:
    """`Queue.get` of what is in memory."""
    answer = queue.get()
    assert not isinstance(answer, asyncio.Future)
    return answer


class SlowDisk:
    """A writer that syncs when the test says so."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[int]] = []
        self.receipt = NOTHING

    def known(self) -> None:
        """See `MetadataWriter`."""

    def check(self) -> None:
        """See `MetadataWriter`."""

    def submit(self, changes: Sequence[Change]) -> asyncio.Future[int]:
        """See `MetadataWriter`."""
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]


class Node:
    """The queue side of a broker on one data directory."""

    def __init__(self, logs: LogStore, writer: MetadataWriter, turns: Turns) -> None:
        self.logs = logs
        self.writer = writer
        self.turns = turns
        self.vhosts = VhostDirectory(logs, writer, turns.scheduler, turns.call_later)
        self.users = UserDirectory(writer, no_hash)
        self.parameters = GlobalParameters(writer)
        self.definitions = NodeDefinitions(self.vhosts, self.users, self.parameters, logs.metadata)

    @property
    def vhost(self) -> VirtualHost:
        """The vhost `/`."""
        return self.vhosts.get("/")

    def vhost_with(self, writer: MetadataWriter) -> VirtualHost:
        """Another vhost `/`, whose changes go to a writer of the test."""
        return VirtualHost(
            VhostRecord("/"),
            replace(self.vhosts._store, writer=writer),
            budget=self.vhosts.budget,
            counters=self.vhosts.counters,
        )


async def no_hash(password: bytes) -> str:
    """A node of tests has no passwords."""
    raise NotImplementedError


@asynccontextmanager
async def running_node(
    data: Path,
    options: LogOptions = OPTIONS,
    *,
    clocked: bool = False,
    slow: bool = False,
    before_loading: Callable[[Node], None] = lambda node: None,
) -> AsyncIterator[Node]:
    """A node with the vhost `/`, which recovers what is in the directory.

    Args:
        clocked: it goes by the clock of its turns.
        slow: a second passes at each step of opening its queues, with all that is due then.
        before_loading: called when its journal takes entries, and it does not know yet what it remembers.
    """
    loop = asyncio.get_running_loop()
    turns = Turns()
    clock = turns.clock if clocked else SystemClock()
    logs = LogStore(data, SystemDisk(), clock, loop, options)
    node = Node(logs, logs.metadata_writer, turns)
    try:
        logs.recover_metadata()
        await node.vhosts.load(logs.metadata)
        await node.vhosts.open_logs()
        logs.recover()
        if slow:
            for _ in node.vhosts._recovering():
                turns.pass_seconds(1)
        else:
            await node.vhosts.recovered()
        logs.start(1)
        before_loading(node)
        await node.vhosts.load_memories()
        await node.vhosts.add("/")
        yield node
    finally:
        await logs.aclose()
