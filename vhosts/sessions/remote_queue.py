"""A queue that another node leads, as the front ends of this node see it."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain
from operator import methodcaller
from typing import Annotated, Any

import msgspec

from routelog.exchanges import QueueNotFound
from routelog.log_backend import Durability, Progress, Records
from routelog.vhosts.arguments.policy import EffectiveArguments, Policy, effective_arguments
from routelog.vhosts.arguments.queue_arguments import (
    counts_deliveries,
    durability,
    has_single_active_consumer,
    is_stream,
)
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.counters.counters import MessageCounters
from routelog.vhosts.errors import OutcomePending, SessionLost
from routelog.vhosts.messages.consumer import Consumer
from routelog.vhosts.messages.delivery import Delivery, DeliverySource, put_back
from routelog.vhosts.queues.queue_handle import (
    AttachedConsumer,
    ConsumeOptions,
    ConsumerSource,
    QueueCounts,
    QueueHandle,
    value_of,
)
from routelog.vhosts.rules.delivery_limit import delivery_limit
from routelog.vhosts.rules.length_limit import length_options
from routelog.vhosts.rules.retry_backoff import retry_options
from routelog.vhosts.rules.unique_keys import DEDUPLICATION
from routelog.vhosts.sessions.front_session import FrontSession
from routelog.vhosts.sessions.leader_link import LeaderLink
from routelog.vhosts.sessions.remote_consumer import RemoteConsumer
from routelog.vhosts.sessions.remote_partition import PartitionReturns, RemotePartition
from routelog.vhosts.sessions.session_message import OFFSET_END, BadSessionMessage, records_of

Number = Annotated[int, msgspec.Meta(ge=0, lt=OFFSET_END)]


class GotMessage(msgspec.Struct):
    """The leader's answer to `get`.

    Attributes:
        ready: messages that are left.
        count: how often it was delivered again.
        batch: the message.
    """

    ready: Number
    partition: Number
    offset: Number
    redelivered: bool
    count: Number
    batch: bytes


class RemoteQueue:
    """A queue that another node leads (`QueueHandle`).

    Attributes:
        numbers: of its partitions, in order.
        is_single: it has a single active consumer.
        ready: messages that wait for a consumer, when the leader last said so.
        link: the way to the leader.
        counters: what came and left by way of this node.

    Args:
        default_durability: of queues whose arguments say none.
    """

    def __init__(
        self,
        vhost: str,
        properties: QueueProperties,
        numbers: Sequence[int],
        link: LeaderLink,
        counters: MessageCounters,
        default_durability: Durability,
    ) -> None:
        self.vhost = vhost
        self.name = properties.name
        self.numbers = numbers
        self.link = link
        self.counters = counters
        self.counters.owner = self
        self.is_stream = is_stream(properties.arguments)
        self.is_behind = False
        self.on_caught_up: Callable[[], None] | None = None
        self.deleted = False
        self.ready = 0
        self.group = ""
        self._default_durability = default_durability
        self._consumers: dict[Consumer, RemoteConsumer] = {}
        self._session = link.session  # that the following are of
        self._got: dict[int, RemotePartition] = {}
        self._returns: dict[tuple[str, int], PartitionReturns] = {}
        self._own: QueueHandle | None = None  # of this node, which leads
        self._asking_own: set[asyncio.Task[None]] = set()
        self.change(properties, None, None)

    # -- what it goes by

    def follow(self, policy: Policy | None, operator: Policy | None) -> None:
        """Apply these policies from now on."""
        self.change(self.properties, policy, operator)

    def change(
        self, properties: QueueProperties, policy: Policy | None, operator: Policy | None
    ) -> None:
        """Apply other arguments, and these policies, from now on."""
        self.properties = properties
        self.is_single = has_single_active_consumer(properties.arguments)
        self.effective: EffectiveArguments = effective_arguments(
            properties.arguments, policy, operator
        )
        values = self.effective.values
        self.durability: Durability = durability(values, self._default_durability)
        length = length_options(values)
        is_limited = length is not None and length.refuses
        self.may_refuse = not self.is_stream and (is_limited or values.get(DEDUPLICATION) is True)
        self.counts_deliveries = counts_deliveries(properties.arguments) or not (
            self.is_stream or (delivery_limit(values) is None and retry_options(values) is None)
        )

    # -- what it is

    @property
    def session(self) -> FrontSession:
        """The session that is open, or the next one."""
        return self.link.session

    @property
    def progress(self) -> Progress:
        """See `Recipient`."""
        return self.link.session.progress

    @property
    def number(self) -> int:
        """The number of its first partition: a queue that is declared later has a higher one."""
        return self.numbers[0]

    @property
    def partition_count(self) -> int:
        """See `QueueHandle`."""
        return len(self.numbers)

    def sources(self) -> Iterable[DeliverySource]:
        """See `QueueHandle`."""
        consumers = self._consumers.values()
        return chain(
            self._got.values(), *(list(consumer.partitions.values()) for consumer in consumers)
        )

    def partition_index(self, source: DeliverySource) -> int:
        """See `QueueHandle`."""
        return list(self.numbers).index(source.number)

    def activity(self, consumer: Consumer) -> str:
        """See `QueueHandle`: the leader knows which one is the single active one."""
        return "up"

    @property
    def full_name(self) -> str:
        """As RabbitMQ names it when its node is down."""
        return f"durable {self}" if self.properties.durable else str(self)

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    # -- publishing

    def publish(self, records: Records, waited: bool) -> int:
        """See `Recipient`.

        Returns:
            The number of the batch in the session: a position of `progress`.

        Raises:
            OutcomePending: the queue may refuse some of it.
        """
        if self.deleted:
            return 0
        session = self.link.session
        number = session.send_batch(self, records, waited)
        self.counters.published_to(records.exchange, records.count)
        if self.may_refuse:
            raise OutcomePending(number, session.outcome(number, records.count))
        return number

    def takes(self, count: int, size: int) -> bool:
        """See `Recipient`: the leader knows; see `publish`."""
        return True

    def transaction_ended(self, *, failed: bool) -> None:
        """See `Recipient`: it ends at the leader."""

    # -- consuming

    def attach(
        self,
        consumer: AttachedConsumer,
        options: ConsumeOptions,
        begin: Callable[[ConsumerSource], None],
    ) -> "asyncio.Future[None]":
        """See `QueueHandle`.

        Raises:
            SessionLost: or the future has it; who asks again sees first whether its client still may.
        """
        self._check()
        if not self.link.session.is_open:
            raise SessionLost(self.full_name, self.link.session.leader)
        remote = self._consumers[consumer] = RemoteConsumer(self, consumer, options, begin)
        remote.attach()
        return remote.attached

    def left(self, consumer: Consumer) -> None:
        """See `ConsumedQueue`."""
        self._consumers.pop(consumer, None)

    def detach(self, gone: Collection[Consumer]) -> "asyncio.Future[None] | None":
        """See `QueueHandle`: all nodes know then, too, if it was deleted for that."""
        leaving = [self._consumers[each] for each in gone if each in self._consumers]
        if not leaving:
            return None
        left = self._say_gone("detach", leaving, [each.subject for each in leaving])
        for each in leaving:
            each.leave()
        return left if self.link.session.is_open else None

    def _say_gone(
        self, method: str, leaving: Sequence[RemoteConsumer], said: object
    ) -> "asyncio.Future[None]":
        session, subjects = self.link.session, [each.subject for each in leaving]
        left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partitions = [part for each in leaving for part in each.partitions_in_order]
        for partition in partitions:
            partition.pause()  # until what is on the way is back, too

        def gone(_: object) -> None:
            for subject in subjects:
                session.forget_consumer(subject)
            for each in leaving:
                each.end()
            for partition in partitions:
                partition.resume()
            if not left.done():
                left.set_result(None)

        def failed(error: Exception) -> None:
            # They have left, too; a client that cancels is told that its queue has not gone with them.
            if method == "cancel" and not (left.done() or isinstance(error, SessionLost)):
                left.set_exception(error)
            gone(None)

        self._ask(method, gone, failed, said)
        return left

    def cancel(self, consumer: Consumer) -> "asyncio.Future[None] | None":
        """See `QueueHandle`."""
        remote = self._consumers.get(consumer)
        if remote is None:
            return None
        if not self.link.session.is_open:
            self._say_gone("detach", [remote], [remote.subject])
            remote.end()
            return None
        remote.is_cancelled = True
        return self._say_gone("cancel", [remote], remote.subject)

    def stand_aside(self, consumer: Consumer) -> None:
        """See `QueueHandle`."""
        remote = self._consumers.get(consumer)
        if remote is not None:
            remote.stand_aside()

    def has_credit(self, consumer: Consumer) -> None:
        """See `ConsumerSource`."""
        remote = self._consumers.get(consumer)
        if remote is not None:
            remote.has_credit(consumer)

    def on_ready(self) -> None:
        """See `ConsumerSource`."""
        for remote in self._consumers.values():
            remote.on_ready()

    def get(self, *, while_paused: bool = False) -> "asyncio.Future[Delivery | None]":
        """See `QueueHandle`.

        Raises:
            SessionLost: or the future has it.
        """
        got = partial(self._got_message, self.link.session)
        here = methodcaller("get", while_paused=while_paused)
        return self._call("get", got, here, while_paused)

    def _got_message(self, session: FrontSession, value: Any) -> Delivery | None:
        if value is None:
            return None
        try:
            got = msgspec.convert(value, GotMessage)
        except msgspec.ValidationError as error:
            raise BadSessionMessage(f"the answer of get: {error}") from None
        if not got.partition < len(self.numbers):
            raise BadSessionMessage(f"get of partition {got.partition} of {self}")
        records = records_of(bytearray(got.batch))  # the kernel wants what can be written
        if records.count != 1:
            raise BadSessionMessage(f"get of {records.count} messages")
        self.ready = got.ready
        partition = self._got_from(session, got.partition)
        if self.counts_deliveries:
            partition.got(got.offset, got.count)
        delivery = Delivery(partition, records, 0, 1, got.offset, got.redelivered)
        if len(self.numbers) > 1:
            delivery.partition_index = got.partition
        return delivery

    def _got_from(self, session: FrontSession, index: int) -> RemotePartition:
        returns = self.returns("", index)
        partition = self._got.get(index)
        if partition is None:
            subject, number = session.subject_of(self), self.numbers[index]
            partition = self._got[index] = RemotePartition(
                session, subject, subject, number, index, self.counters, self, returns
            )
        return partition

    def returns(self, group: str, index: int) -> PartitionReturns:
        """See `ConsumedQueue`."""
        session = self.link.session
        if session is not self._session:
            self._session = session
            self._got, self._returns = {}, {}
        returns = self._returns.get((group, index))
        if returns is None:
            returns = self._returns[group, index] = PartitionReturns(session, index)
        return returns

    def purge(self) -> "asyncio.Future[int]":
        """See `QueueHandle`.

        Raises:
            SessionLost: or the future has it.
        """
        return self._call("purge", _count, methodcaller("purge"))

    def counts(self) -> "asyncio.Future[QueueCounts]":
        """Count what it has, for a passive declaration: the queue is used by that.

        Raises:
            SessionLost: or the future has it; also when this node leads: `RemoteDefinitions` asks it.
        """
        return self._call("counts", counts_of, None)

    def _call(
        self,
        method: str,
        use: Callable[[Any], Any],
        here: Callable[[QueueHandle], Any] | None,
        *arguments: object,
    ) -> "asyncio.Future[Any]":
        # `here` asks the same of the queue of this node, when it leads; None: the caller does.
        self._check()
        session = self.link.session
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def give(value: object) -> None:
            if not answer.done():
                answer.set_result(value)
            elif isinstance(value, Delivery):  # nobody waits any more
                put_back(value)

        def refuse(error: Exception) -> None:
            if not answer.done():
                answer.set_exception(error)

        async def ask_own(own: QueueHandle, ask: Callable[[QueueHandle], Any]) -> None:
            try:
                value = await value_of(ask(own))
            except Exception as error:
                refuse(error)
            else:
                self.ready = own.ready
                give(value)

        def failed(error: Exception) -> None:
            own = self._own
            if own is None or here is None or session.was_open or answer.done():
                return refuse(error)
            # Nothing was sent, so nobody has carried it out.
            self._asking_own.add(task := asyncio.ensure_future(ask_own(own, here)))
            task.add_done_callback(self._asking_own.discard)

        self._ask(method, lambda value: give(use(value)), failed, *arguments)
        return answer

    def _ask(
        self,
        method: str,
        answered: Callable[[Any], None],
        failed: Callable[[Exception], None],
        *arguments: object,
    ) -> None:
        session = self.link.session
        session.ask(method, arguments, answered, failed, session.subject_of(self), self.full_name)

    def _check(self) -> None:
        if self.deleted:
            raise QueueNotFound(self.name, self.vhost)

    # -- the end

    def delete(self) -> None:
        """The queue is deleted: tell its consumers."""
        self.deleted = True
        self.counters.leave()
        for remote in list(self._consumers.values()):
            remote.ended(None)
        self.link.session.forget_queue(self)

    def hand_over(self, queue: QueueHandle) -> None:
        """This node leads: its own queue serves all consumers from here on."""
        self._own = queue
        self.counters.leave()
        for remote in list(self._consumers.values()):
            remote.hand_over(queue)


def _count(value: Any) -> int:
    if not isinstance(value, int):
        raise BadSessionMessage(f"a count: {value!r}")
    return value


def counts_of(value: Any) -> QueueCounts:
    """The counts that the leader has answered.

    Raises:
        BadSessionMessage: it has not.
    """
    try:
        return QueueCounts(*msgspec.convert(value, tuple[int, int]))
    except msgspec.ValidationError as error:
        raise BadSessionMessage(f"counts: {error}") from None
