"""A queue as front ends see it, and the answers that it gives."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar, Union

from routelog.vhosts.arguments.group_options import GroupOptions
from routelog.vhosts.arguments.policy import EffectiveArguments
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.counters.counters import MessageCounters
from routelog.vhosts.filters.reader_filter import ReaderFilter
from routelog.vhosts.messages.consumer import Consumer
from routelog.vhosts.messages.delivery import Delivery, DeliverySource
from routelog.vhosts.messages.recipient import Recipient

_Value = TypeVar("_Value")
_Result = TypeVar("_Result")

# A value that is there, as a queue of this process gives it; or what resolves to it.
Answer = Union[_Value, "asyncio.Future[_Value]"]


def after(answer: Answer[_Value], use: Callable[[_Value], Answer[_Result]]) -> Answer[_Result]:
    """The answer of `use` to the value of an answer: it is called at once for a value that is there."""
    return then(answer, use) if asyncio.isfuture(answer) else use(answer)


def then(
    answer: "asyncio.Future[_Value]", use: Callable[[_Value], Answer[_Result]]
) -> "asyncio.Future[_Result]":
    """The answer of `use` to the value of an answer that is to come.

    Guarantees:
        `use` is called when the value has come, also when nobody waits any more: it may hold something.
    """
    return answer.get_loop().create_task(_used(answer, use))


async def _used(
    answer: "asyncio.Future[_Value]", use: Callable[[_Value], Answer[_Result]]
) -> _Result:
    used = use(await answer)
    return await used if asyncio.isfuture(used) else used


def pending(answer: Answer[_Value]) -> "asyncio.Future[_Value] | None":
    """What an answer has to wait for; None: it is there."""
    return answer if asyncio.isfuture(answer) else None


def decided(answer: Awaitable[object]) -> "asyncio.Future[None]":
    """When an answer has come, or has failed."""
    return asyncio.ensure_future(_decided(answer))


async def _decided(answer: Awaitable[object]) -> None:
    with suppress(Exception):
        await answer


async def value_of(answer: Answer[_Value]) -> _Value:
    """The value of an answer; who else waits for it does so when this is cancelled."""
    return await asyncio.shield(answer) if asyncio.isfuture(answer) else answer


@dataclass(eq=False, slots=True)
class ChannelPrefetch:
    """The prefetch count of a channel, which its consumers share.

    Attributes:
        number: of the channel, which no other one of this process has.
        count: deliveries that they may have unsettled together; 0 is no limit.
    """

    number: int
    count: int


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """How a consumer takes the messages of a queue.

    Attributes:
        group: the consumer group that it joins; None: none.
        place: where in the log it begins to read, or a new group does; None: it takes ready messages.
        places: of a reader that goes on: the next offset of each partition, in the place of `place`.
        now: microseconds since 1970, for a place that is an age.
        wanted: which messages of the log it is given; None: all.
        cancel_on_failover: it ends when another node leads the queue.
        shared: the prefetch count of its channel; None: it has none, and will have none.
        comes_back: it had its place when another node led the queue.
    """

    group: GroupOptions | None = None
    place: object = None
    now: int = 0
    wanted: ReaderFilter | None = None
    cancel_on_failover: bool = False
    shared: ChannelPrefetch | None = None
    places: Sequence[int] = ()
    comes_back: bool = False


class QueueCounts(NamedTuple):
    """What a queue has, when all that is due was done."""

    ready: int
    consumers: int


class ConsumerSource(Protocol):
    """What serves a consumer: its queue, or a group of it.

    Attributes:
        group: name of the group; empty: it is none.
    """

    @property
    def group(self) -> str:
        """See the class."""

    @property
    def ready(self) -> int:
        """Messages that wait for a consumer."""

    def has_credit(self, consumer: Consumer) -> None:
        """A consumer that had none may have credit again."""

    def on_ready(self) -> None:
        """Dispatch what is ready after this turn."""


class AttachedConsumer(Consumer, Protocol):
    """A consumer that can be served by another queue of the same name, when another node leads.

    Attributes:
        queue: what it consumes from.
        source: what it is served by.
        prefetch: deliveries that it may have unsettled; 0 is no limit.
        lapsed: of its unsettled deliveries, those that were taken back.
    """

    queue: "QueueHandle"
    source: ConsumerSource
    prefetch: int
    lapsed: int


class QueueHandle(Recipient, ConsumerSource, Protocol):
    """A queue as front ends see it: nobody asks its partitions. `Queue` is the one of this process.

    Attributes:
        effective: the arguments in force, policies included.
        is_stream: consumers read the log and settle nothing.
    """

    vhost: str
    properties: QueueProperties
    effective: EffectiveArguments
    counters: MessageCounters
    is_stream: bool

    @property
    def counts_deliveries(self) -> bool:
        """Whether redeliveries have the header `x-delivery-count`."""

    @property
    def partition_count(self) -> int:
        """How many partitions it has."""

    def sources(self) -> Iterable[DeliverySource]:
        """What its deliveries come from: its partitions, in order, and those of its groups."""

    def partition_index(self, source: DeliverySource) -> int:
        """The partition that a source reads."""

    def activity(self, consumer: Consumer) -> str:
        """The state of a consumer as RabbitMQ names it: "up", "single_active", or "waiting" for that."""

    def attach(
        self,
        consumer: AttachedConsumer,
        options: ConsumeOptions,
        begin: Callable[[ConsumerSource], None],
    ) -> Answer[None]:
        """Begin to deliver to a consumer.

        Args:
            begin: called when the consumer is there, before its first delivery, with what serves it.

        Raises:
            ConsumptionRefused: an exclusive consumer stands in the way.
            NotReadable, InvalidStreamOffset, QueueQuarantined: the queue cannot be read from there.
            TooManyGroups: the group is not there, and there may be no more.
            GroupInequivalent: the group has another filter.
            FilterRefused: the consumer has a filter, and reads no log.
        """

    def detach(self, gone: Collection[Consumer]) -> Answer[None]:
        """Deliver no more to some consumers; unknown ones are ignored.

        Returns:
            Done when nothing is on the way to them any more; it does not fail.
        """

    def cancel(self, consumer: Consumer) -> Answer[None]:
        """Deliver what is due, and then no more to a consumer."""

    def stand_aside(self, consumer: Consumer) -> None:
        """A consumer does not acknowledge in time: make a waiting one the single active one."""

    def get(self, *, while_paused: bool = False) -> Answer[Delivery | None]:
        """Hand out one message; None: none is ready, or the queue is paused.

        Args:
            while_paused: for an operator, who has paused it.

        Raises:
            QueueQuarantined: the next one lies at or behind a damage.
            QueueUnreadable: it could not be read; the next time it is tried again.
            GetRefused: the queue has a single active consumer.
            QueueNotFound: the queue was deleted meanwhile.
        """

    def purge(self) -> Answer[int]:
        """Settle all ready messages; returns how many."""
