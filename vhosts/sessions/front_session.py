"""The front's end of a session: batches, calls and settlements out; confirms, answers and deliveries in.

unopened ──► open ──► lost

What is sent before it opens is kept, and goes first, in its order. Settlements and returns of a turn of the
event loop are gathered, and sent after it, or before whatever else clients send: in their order, too.
"""

import asyncio
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, NoReturn, Protocol

import msgspec

from routelog.log_backend import JournalFailed, Octets, Progress, Records
from routelog.vhosts.errors import SessionLost, Untaken
from routelog.vhosts.sessions.session_errors import decode_error
from routelog.vhosts.sessions.session_message import (
    ASKED,
    FAILED,
    OUTBOX_BYTES_MAX,
    WAITED,
    BadSessionMessage,
    Kind,
    SessionMessage,
    batch_pieces,
    message_pieces,
    reply_of,
    reply_pieces,
    value_in,
)

FED = Kind.RECORDS, Kind.SNAPSHOT, Kind.CHANGES

WINDOW_BYTES = 16 * 1024 * 1024  # of batches that are not confirmed: 10 ms at 10 Gbit/s, and a sync

Write = Callable[[Sequence[Octets]], object]


class SessionConsumer(Protocol):
    """A consumer of the session: see `RemoteConsumer`."""

    def received(self, message: SessionMessage) -> None:
        """Take a delivery."""

    def ended(self, error: Exception | None) -> None:
        """The leader delivers no more; None: the queue is deleted."""

    def lost(self, *, was_open: bool) -> None:
        """The session is lost."""


class SessionQueue(Protocol):
    """A queue of the session: see `RemoteQueue`."""

    @property
    def vhost(self) -> str:
        """Name of its virtual host."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def number(self) -> int:
        """The number of its first partition."""

    @property
    def may_refuse(self) -> bool:
        """See `Recipient`, as far as this node knows."""


class Gathered(Protocol):
    """Something that gathers what it has to send in a turn of the event loop."""

    def pieces(self) -> list[Octets]:
        """Take what it has gathered, as the bytes of messages."""


class _Call(NamedTuple):
    answered: Callable[[Any], None]
    failed: Callable[[Exception], None]
    about: str


@dataclass(frozen=True, slots=True)
class _Outcome:
    number: int
    count: int  # of messages
    untaken: "asyncio.Future[Untaken]"


class FrontSession:
    """One session of a front with a leader.

    Attributes:
        progress: of the session's batches, whose numbers are its positions; it fails when the session is lost.
        epoch: of the leader.
        leader: name of its node, for errors; empty: unknown.
        is_open, is_lost: see the states.
        was_open: the leader may have carried out what was sent. Else it is lost when what waits has waited long
            enough, or this node leads or stops.
        unconfirmed_bytes: of batches that are not confirmed, those of transactions included.
        on_window: told when WINDOW_BYTES are not confirmed, and when half of them are: publishers wait between.
        on_apply: told of a position of definitions that the leader waits for: answer with `applied`.
        on_pressure: told why publishers are to wait; empty: they are not.
        on_reply: takes a direct reply to an address of this node.
        on_asked: takes what the leader asks about clients of this node.
        on_counts: takes counts of other nodes' clients.
        on_traced: told in which vhosts messages are copied to the firehose.
        on_definitions: takes a message of the feed of definitions, if this front is to be fed.
        outbox_bytes: how much the transport has not sent: while it is much, replies are lost.

    Args:
        call_soon: runs a function after this turn of the event loop.
        now: a monotonic clock, in seconds.
        replace: called when the session is lost, before anybody else is told: what comes is for another one.
    """

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        now: Callable[[], float],
        replace: Callable[[], None] = lambda: None,
    ) -> None:
        self.call_soon = call_soon
        self.progress = Progress(call_soon, now)
        self.epoch = 0
        self.leader = ""
        self.is_open = self.was_open = self.is_lost = False
        self.unconfirmed_bytes = 0
        self.on_window: Callable[[bool], None] = lambda is_full: None
        self.on_apply: Callable[[int], None] = lambda position: None
        self.on_pressure: Callable[[frozenset[str]], None] = lambda reasons: None
        self.on_reply: Callable[[bytes, Records], None] = lambda address, records: None
        self.on_asked: Callable[[SessionMessage], None] = lambda message: None
        self.on_counts: Callable[[SessionMessage], None] = lambda message: None
        self.on_traced: Callable[[Sequence[str]], None] = lambda vhosts: None
        self.on_definitions: Callable[[SessionMessage], None] = _refuse_definitions
        self.outbox_bytes: Callable[[], int] = lambda: 0
        self._replace = replace
        self._unsent: list[Octets] = []
        self.write: Write = self._unsent.extend
        self._next_subject = 1
        self._queues: dict[SessionQueue, int] = {}
        self._consumers: dict[int, SessionConsumer] = {}
        self._next_call = 1
        self._calls: dict[int, _Call] = {}
        self._next_batch = 1
        self._sizes: deque[int] = deque()  # of batches that are not confirmed
        self._is_full = False
        self._outcomes: deque[_Outcome] = deque()
        self._gathered: list[Gathered] = []
        self._is_flush_due = False
        self._actions: Mapping[Kind, Callable[[SessionMessage], None]] = {
            Kind.CONFIRM: self._confirmed,
            Kind.REFUSED: lambda message: self._learn(message, message.count, 0),
            Kind.ROUTED: lambda message: self._learn(message, message.first, message.count),
            Kind.REPLY: lambda message: self.on_reply(*reply_of(message)),
            Kind.DELIVER: self._delivered,
            Kind.ENDED: self._ended,
            Kind.ANSWER: self._answered,
            Kind.APPLY: lambda message: self.on_apply(message.number),
            Kind.PRESSURE: self._pressed,
            Kind.ASK: lambda message: self.on_asked(message),
            Kind.COUNTS: lambda message: self.on_counts(message),
            Kind.TRACED: lambda message: self.on_traced(value_in(message.content, list[str])),
            Kind.BEAT: lambda message: None,
            **dict.fromkeys(FED, lambda message: self.on_definitions(message)),
        }

    # -- its states

    def open(self, write: Write, epoch: int) -> None:
        """The leader has taken the session.

        Args:
            write: sends pieces of messages, with all others of this turn of the event loop.
        """
        self.epoch, self.is_open, self.was_open = epoch, True, True
        unsent, self._unsent = self._unsent, []
        self.write = write
        if unsent:
            write(unsent)

    def lost(self, reason: str) -> None:
        """The session has ended, or will not be opened.

        Args:
            reason: in words, for who reads the log.

        What is not confirmed is refused to its publishers, calls fail with SessionLost; consumers are told.
        """
        if self.is_lost:
            return
        self.is_open, self.is_lost = False, True
        self.write = lambda pieces: None
        self._unsent.clear()
        self._gathered.clear()
        self._replace()
        calls, self._calls = self._calls, {}
        consumers, self._consumers = self._consumers, {}
        outcomes, self._outcomes = self._outcomes, deque()
        self._queues.clear()
        self._sizes.clear()
        self._count_unconfirmed(-self.unconfirmed_bytes)
        for outcome in outcomes:
            _resolve(outcome.untaken, Untaken())  # its receipt will never be covered
        for call in calls.values():
            call.failed(SessionLost(call.about, self.leader))
        for consumer in consumers.values():
            consumer.lost(was_open=self.was_open)
        self.progress.fail()

    # -- what the front sends

    @property
    def last_batch(self) -> int:
        """The number of the last batch; 0: there was none."""
        return self._next_batch - 1

    def subject_of(self, queue: SessionQueue) -> int:
        """The number of a queue in this session, which the leader knows from here on."""
        subject = self._queues.get(queue)
        if subject is None:
            subject = self._queues[queue] = self._new_subject()
            content = msgspec.msgpack.encode([queue.vhost, queue.name])
            self._send(SessionMessage(Kind.QUEUE, 0, 0, subject, queue.number, content=content))
        return subject

    def forget_queue(self, queue: SessionQueue) -> None:
        """A queue is deleted: it is sent nothing more."""
        self._queues.pop(queue, None)

    def _new_subject(self) -> int:
        subject, self._next_subject = self._next_subject, self._next_subject + 1
        return subject

    def add_consumer(self, consumer: SessionConsumer) -> int:
        """The number of a consumer in this session, to which deliveries come from here on."""
        subject = self._new_subject()
        self._consumers[subject] = consumer
        return subject

    def forget_consumer(self, subject: int) -> None:
        """The leader delivers no more to a consumer."""
        self._consumers.pop(subject, None)

    def send_batch(self, queue: SessionQueue, records: Records, waited: bool) -> int:
        """Publish to a queue.

        Args:
            waited: somebody waits for its confirm.

        Returns:
            The number of the batch, a position of `progress`.

        Raises:
            JournalFailed: the session is lost, and no other one follows it.
        """
        if self.is_lost:
            raise JournalFailed(SessionLost(str(queue), self.leader))
        subject = self._queues.get(queue) or self.subject_of(queue)
        number, self._next_batch = self._next_batch, self._next_batch + 1
        flags = (WAITED if waited else 0) | (ASKED if queue.may_refuse else 0)
        self.flush()
        self.write(batch_pieces(SessionMessage(Kind.PUBLISH, flags, 0, subject, number), records))
        size = records.batch_bytes
        self._sizes.append(size)
        self._count_unconfirmed(size)
        return number

    def outcome(self, number: int, count: int) -> "asyncio.Future[Untaken]":
        """Await which messages of the last batch its queue, or exchange, does not take.

        Args:
            number: of the batch.
            count: of its messages.

        Returns:
            Their indexes; none when the session is lost.
        """
        untaken: asyncio.Future[Untaken] = asyncio.get_running_loop().create_future()
        self._outcomes.append(_Outcome(number, count, untaken))
        return untaken

    def call(self, method: str, *arguments: object, subject: int = 0) -> "asyncio.Future[Any]":
        """Call a method of the leader, of a queue or of none (subject 0).

        Returns:
            Its answer, or the error that the leader raised; SessionLost.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.ask(method, arguments, partial(_resolve, answer), partial(_fail, answer), subject)
        return answer

    def ask(
        self,
        method: str,
        arguments: Sequence[object],
        answered: Callable[[Any], None],
        failed: Callable[[Exception], None],
        subject: int = 0,
        about: str = "the definitions",
    ) -> None:
        """As `call`: one of two functions is called before the message behind the answer is looked at.

        Args:
            about: what it is about, for SessionLost.
        """
        if self.is_lost:
            return failed(SessionLost(about, self.leader))
        number, self._next_call = self._next_call, self._next_call + 1
        self._calls[number] = _Call(answered, failed, about)
        self._send_call(number, method, arguments, subject)

    def tell(self, method: str, *arguments: object, subject: int = 0) -> None:
        """As `call`, without an answer."""
        self._send_call(0, method, arguments, subject)

    def _send_call(
        self, number: int, method: str, arguments: Sequence[object], subject: int
    ) -> None:
        self.flush()
        content = msgspec.msgpack.encode([method, *arguments])
        self._send(SessionMessage(Kind.CALL, 0, 0, subject, number, content=content))

    def send_reply(self, address: bytes, records: Records) -> None:
        """Send a direct reply to a client of another node; it is lost if the leader does not read."""
        if self.is_open and self.outbox_bytes() <= OUTBOX_BYTES_MAX:
            self.flush()
            self.write(reply_pieces(address, records))

    def commit(
        self,
        parts: list[Octets],
        size: int,
        answered: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Have the leader carry out a transaction: see `ask`.

        Args:
            parts: its messages, which nothing else comes between.
            size: bytes of its batches; they are unconfirmed until it is answered.
        """
        if self.is_lost:
            failed(SessionLost("the transaction", self.leader))
            return

        def confirmed(tell: Callable[[Any], None], value: Any) -> None:
            if not self.is_lost:
                self._count_unconfirmed(-size)
            tell(value)

        number, self._next_call = self._next_call, self._next_call + 1
        self._calls[number] = _Call(
            partial(confirmed, answered), partial(confirmed, failed), "the transaction"
        )
        self.flush()
        self.write(parts + message_pieces(SessionMessage(Kind.TRANSACTION, number=number)))
        self._count_unconfirmed(size)

    def applied(self, position: int) -> None:
        """This node knows the definitions up to a position."""
        self._send(SessionMessage(Kind.APPLIED, number=position))

    def gather(self, gathered: Gathered) -> None:
        """Take what something gathers at the end of this turn, or before what clients send next."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self.call_soon(self._end_turn)
        self._gathered.append(gathered)

    def _end_turn(self) -> None:
        self._is_flush_due = False
        self.flush()

    def flush(self) -> None:
        """Send what has been gathered."""
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            pieces: list[Octets] = []
            for each in gathered:
                pieces += each.pieces()
            self.write(pieces)

    def _send(self, message: SessionMessage) -> None:
        self.write(message_pieces(message))

    # -- what the leader sends

    def received(self, message: SessionMessage) -> None:
        """Take a message.

        Raises:
            BadSessionMessage: the leader's fault; end the session.
        """
        action = self._actions.get(message.kind)
        if action is None:
            raise BadSessionMessage(f"{message.kind.name} to a front")
        if not self.is_lost:
            action(message)

    def _confirmed(self, message: SessionMessage) -> None:
        progress, written, durable = self.progress, message.number, message.first
        outcomes = self._outcomes
        is_learned = not outcomes or written < outcomes[0].number
        is_ahead = progress.written <= written and progress.durable <= durable <= written
        if not (is_ahead and is_learned) or written >= self._next_batch:
            raise BadSessionMessage(f"CONFIRM {written}, {durable} of {self._next_batch - 1}")
        freed = 0
        for _ in range(written - progress.written):
            freed += self._sizes.popleft()
        progress.advance(written, durable)
        self._count_unconfirmed(-freed)

    def _count_unconfirmed(self, more: int) -> None:
        self.unconfirmed_bytes += more
        limit = WINDOW_BYTES // 2 if self._is_full else WINDOW_BYTES
        if self._is_full is not (self.unconfirmed_bytes >= limit):
            self._is_full = not self._is_full
            self.on_window(self._is_full)

    def _learn(self, message: SessionMessage, refused: int, returned: int) -> None:
        outcomes, about = self._outcomes, f"{message.kind.name} {message.number}"
        indexes = numbers_of(message.content)
        is_next = bool(outcomes) and outcomes[0].number == message.number
        if not is_next or len(indexes) != refused + returned:
            raise BadSessionMessage(f"{about}, {refused} and {returned} messages")
        if max(indexes, default=0) >= outcomes[0].count:
            raise BadSessionMessage(f"{about}: {outcomes[0].count} messages")
        outcome = outcomes.popleft()
        _resolve(outcome.untaken, Untaken(indexes[:refused], indexes[refused:]))

    def _consumer(self, message: SessionMessage) -> SessionConsumer:
        consumer = self._consumers.get(message.subject)
        if consumer is None:
            raise BadSessionMessage(f"{message.kind.name} of consumer {message.subject}")
        return consumer

    def _delivered(self, message: SessionMessage) -> None:
        self._consumer(message).received(message)

    def _ended(self, message: SessionMessage) -> None:
        consumer, value = self._consumer(message), value_in(message.content)
        error = None if value is None else decode_error(value)
        del self._consumers[message.subject]
        consumer.ended(error)

    def _answered(self, message: SessionMessage) -> None:
        call = self._calls.pop(message.number, None)
        if call is None:
            raise BadSessionMessage(f"ANSWER {message.number}")
        try:
            value = value_in(message.content)
            if message.flags & FAILED:
                call.failed(decode_error(value))
            else:
                call.answered(value)
        except BadSessionMessage:
            self._calls[message.number] = call  # it fails with the session
            raise

    def _pressed(self, message: SessionMessage) -> None:
        self.on_pressure(frozenset(value_in(message.content, list[str])))


def _refuse_definitions(message: SessionMessage) -> NoReturn:
    raise BadSessionMessage(f"{message.kind.name} to a front that has a journal")


def numbers_of(content: Octets) -> Sequence[int]:
    """Numbers of 32 bits.

    Raises:
        BadSessionMessage: the content does not end with one.
    """
    if len(content) % 4:
        raise BadSessionMessage(f"numbers in {len(content)} bytes")
    numbers = array("I")
    numbers.frombytes(content)
    return numbers


def _resolve(future: "asyncio.Future[Any]", value: object) -> None:
    if not future.done():  # who waited may have gone
        future.set_result(value)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
