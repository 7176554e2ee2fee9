"""A queue with any of its rules, on a clock that is set, against a list of what became of each message.

Random publishes, deliveries, settlements and returns, and time that passes. After each of them, the queue has
had all the turns it asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from pamqp import commands
from support.queue_samples import Alarm, Turns, got

from routelog.log_backend import EXPIRING, Lane, PartitionLog, Reason, Records, encode_records
from routelog.log_backend.journal.journal_groups import JournalGroups
from routelog.log_backend.journal.receipt import Progress
from routelog.log_backend.partitions.loaded_pieces import PieceBudget
from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.vhosts import (
    Delivery,
    PublishRefused,
    Queue,
    QueuePartition,
    QueueProperties,
    ReturnReason,
)
from routelog.vhosts.partitions.priority_order import prioritize
from routelog.vhosts.publishing.internal_publish import Posted, Settle
from routelog.vhosts.publishing.internal_publisher import Done
from routelog.vhosts.rules.death import Death

PRIORITY_MAX = 3


class Owner:
    """A store that keeps everything in memory."""

    segment_bytes = 1 << 20
    loaded_pieces = PieceBudget(1 << 20)

    def __init__(self) -> None:
        self.intake = LogIntake(JournalGroups(never, never), 1 << 40, never, never)
        self.progress = Progress(never, float)

    def has_unflushed(self, partition: PartitionLog) -> None: ...


def never(*arguments: object) -> None:
    raise AssertionError


class House:
    """What the rules need around them; dead letters end here."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.scheduler = self.turns.scheduler
        self.letters = self.post = self
        self.keeps_refused = False
        self.refused_bytes = 0
        self.dead: list[tuple[str, str]] = []

    def now(self) -> int:
        return self.turns.clock.now()

    def monotonic(self) -> float:
        return self.turns.clock.monotonic()

    def call_soon(self, call: Callable[[], None]) -> None:
        self.scheduler.call(Lane.FRESH, call)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Alarm:
        return self.turns.call_later(seconds, call)

    def is_pressed(self) -> bool:
        return False

    def keep_refused(self, size: int) -> bool:
        self.refused_bytes += size
        return True

    def let_go_refused(self, size: int) -> None:
        self.refused_bytes -= size
        assert self.refused_bytes >= 0

    def remove(self, queue: str) -> None:
        raise AssertionError("no queue here has a lease")

    def send(
        self,
        dead: Sequence[tuple[Records, int]],
        exchange: str,
        death: Death,
        done: Done,
        settle: Settle | None = None,
        *,
        keeps_refused: bool = False,
        taken_by: frozenset[str] = frozenset(),
    ) -> None:
        for records, at in dead:
            self.dead.append((records.body(at).decode(), death.reason))
        posted = Posted(0, 0, frozenset())
        if settle is not None:
            settle(range(len(dead)), posted)
        done(posted)

    def when_moved(self, posted: Posted, settled: object, done: Callable[[], None]) -> None:
        done()


@dataclass
class Message:
    """One message in the model."""

    body: str
    size: int
    priority: int
    deadline: int | None  # us since 1970
    returns: int = 0


@dataclass
class Rules:
    """What the queue of one run asks for."""

    arguments: dict[str, object] = field(default_factory=dict)

    def number(self, name: str) -> int | None:
        value = self.arguments.get(name)
        return value if isinstance(value, int) else None

    @property
    def overflow(self) -> object:
        return self.arguments.get("x-overflow", "drop-head")


NUMBERS = st.one_of(st.none(), st.integers(0, 6))
MESSAGES = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 30)), st.integers(6, 12)),
    min_size=1,
    max_size=5,
)


class QueueAgainstList(RuleBasedStateMachine):
    """The queue, and a list that does the same slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.house = House()
        self.published = 0
        self.ready: list[Message] = []
        self.held: dict[int, Message] = {}
        self.deliveries: dict[int, Delivery] = {}
        self.dead: list[tuple[str, str]] = []
        self.numbers: dict[str, int] = {}  # of each message by its body: order of coming in

    @initialize(
        ttl=st.one_of(st.none(), st.integers(0, 40)),
        count=NUMBERS,
        size=st.one_of(st.none(), st.integers(0, 40)),
        overflow=st.sampled_from([None, "drop-head", "reject-publish", "reject-publish-dlx"]),
        limit=st.one_of(st.none(), st.integers(-1, 3)),
        priorities=st.booleans(),
        dead_letters=st.booleans(),
    )
    def declare(
        self,
        ttl: int | None,
        count: int | None,
        size: int | None,
        overflow: str | None,
        limit: int | None,
        priorities: bool,
        dead_letters: bool,
    ) -> None:
        arguments = {
            "x-message-ttl": ttl,
            "x-max-length": count,
            "x-max-length-bytes": size,
            "x-overflow": overflow,
            "x-delivery-limit": limit,
            "x-dead-letter-exchange": "dead" if dead_letters else None,
            "x-max-priority": PRIORITY_MAX if priorities else None,
        }
        given = {name: value for name, value in arguments.items() if value is not None}
        self.arguments = given
        self.queue_rules = Rules(given)
        self.keeps_dead = dead_letters
        self.priority_max = PRIORITY_MAX if priorities else 0
        properties = QueueProperties("q", arguments=given)
        turns = self.house.turns
        self.queue = Queue("/", properties, None, turns.scheduler, self.house)
        log = PartitionLog(cast(Any, Owner()), 1, Path("nowhere"), durable=False)
        partition = QueuePartition(log, self.queue.wake)
        prioritize([partition], PRIORITY_MAX if priorities else 0, turns.scheduler)
        self.queue.open([partition])
        self.queue.apply(given)
        turns.run()

    # -- what happens

    @rule(messages=MESSAGES)
    def publish(self, messages: list[tuple[int, int | None, int]]) -> None:
        now = self.house.now()
        rows, source, added = array("i"), bytearray(), []
        for priority, expiration, size in messages:
            body = f"{self.published:06}".ljust(size, ".")
            self.numbers[body] = self.published
            self.published += 1
            text = None if expiration is None else str(expiration)
            properties = commands.Basic.Properties(priority=priority or None, expiration=text)
            for part in (b"", properties.marshal(), body.encode()):
                rows.extend((len(source), len(part)))
                source += part
            own = [
                each
                for each in (expiration, self.queue_rules.number("x-message-ttl"))
                if each is not None
            ]
            deadline = now + min(own) * 1_000 if own else None
            added.append(Message(body, size, priority, deadline))
        expiring = any(expiration is not None for _, expiration, _ in messages)
        batch: Records = encode_records(
            memoryview(source),
            memoryview(rows),
            None,
            len(messages),
            b"",
            b"k",
            EXPIRING if expiring else 0,
            self.house.now(),
        )
        refused: list[int] = []
        try:
            self.queue.publish(batch, waited=False)
        except PublishRefused as error:
            refused = list(error.refused)
        assert refused == self._published(added)
        self._settled(limit_first=True)

    @precondition(lambda self: self.ready)
    @rule()
    def get(self) -> None:
        delivery = got(self.queue)
        assert delivery is not None
        message = self._in_order()[0]
        assert delivery.records.body(delivery.index).decode() == message.body
        assert delivery.redelivered == (message.returns > 0)
        self.ready.remove(message)
        self.held[delivery.offset] = message
        self.deliveries[delivery.offset] = delivery
        self._settled()

    @precondition(lambda self: not self.ready)
    @rule()
    def get_nothing(self) -> None:
        assert got(self.queue) is None

    @precondition(lambda self: self.held)
    @rule(data=st.data(), what=st.sampled_from(["ack", "reject", *ReturnReason]))
    def finish(self, data: st.DataObject, what: str | ReturnReason) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        message = self.held.pop(offset)
        partition = self.deliveries.pop(offset).partition
        if isinstance(what, ReturnReason):
            limit = self.queue_rules.number("x-delivery-limit")
            partition.give_back(offset, offset + 1, what)
            message.returns += what is not ReturnReason.UNUSED
            is_blamed = what in (ReturnReason.FAILED, ReturnReason.RETURNED)
            if is_blamed and limit is not None and 0 <= limit < message.returns:
                self._die(message, "delivery_limit")
            else:
                self.ready.append(message)
        elif what == "reject":
            partition.settle(offset, offset + 1, Reason.REJECTED)
            self._die(message, "rejected")
        else:
            partition.settle(offset, offset + 1)
        self._settled()

    @rule(milliseconds=st.integers(1, 25))
    def pass_time(self, milliseconds: int) -> None:
        self.house.turns.pass_seconds(milliseconds / 1_000)
        self._settled()

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.ready)
        self.ready.clear()

    @rule(priority_max=st.integers(0, PRIORITY_MAX))
    def change_priorities(self, priority_max: int) -> None:
        self.priority_max = priority_max
        # As any change of arguments does: another head may have expired.
        self.queue.apply(self.arguments)
        prioritize(self.queue.partitions, priority_max, self.house.turns.scheduler)
        self._settled()

    # -- what the model makes of it

    def _in_order(self) -> list[Message]:
        def place(message: Message) -> tuple[int, int]:
            return -min(message.priority, self.priority_max), self.numbers[message.body]

        return sorted(self.ready, key=place)

    def _die(self, message: Message, reason: str) -> None:
        if self.keeps_dead:
            self.dead.append((message.body, reason))

    def _too_long(self, more: int = 0, more_bytes: int = 0) -> bool:
        count, size = (
            self.queue_rules.number("x-max-length"),
            self.queue_rules.number("x-max-length-bytes"),
        )
        ready_bytes = sum(each.size for each in self.ready) + more_bytes
        too_many = count is not None and len(self.ready) + more > count
        return too_many or (size is not None and ready_bytes > size)

    def _published(self, added: list[Message]) -> list[int]:
        refused = []
        for index, message in enumerate(added):
            if self.queue_rules.overflow == "drop-head" or not self._too_long(1, message.size):
                self.ready.append(message)
                continue
            refused.append(index)
            if self.queue_rules.overflow == "reject-publish-dlx":
                self._die(message, "maxlen")
        return refused

    def _settled(self, *, limit_first: bool = False) -> None:
        # A full queue is so before time is looked at; else time comes first.
        if limit_first:
            self._shorten()
        self._expire()
        self._shorten()
        self._expire()
        self.house.turns.run()

    def _shorten(self) -> None:
        while self.queue_rules.overflow == "drop-head" and self.ready and self._too_long():
            message = self._in_order()[0]
            self.ready.remove(message)
            self._die(message, "maxlen")

    def _expire(self) -> None:
        now = self.house.now()
        while self.ready:
            head = self._in_order()[0]
            if head.deadline is None or now < head.deadline:
                return
            self.ready.remove(head)
            self._die(head, "expired")

    # -- what holds

    @invariant()
    def counts(self) -> None:
        if self.published:
            assert self.queue.ready == len(self.ready)
            assert self.queue.unacked == len(self.held)

    @invariant()
    def deaths(self) -> None:
        assert sorted(self.house.dead) == sorted(self.dead)

    @invariant()
    def bytes_are_counted(self) -> None:
        rules = self.queue.rules if self.published else None
        if rules is not None and rules.length is not None and rules.length._bytes:
            assert rules.length.ready_bytes == sum(each.size for each in self.ready)

    def teardown(self) -> None:
        if not self.published:
            return
        for offset, delivery in self.deliveries.items():
            delivery.partition.settle(offset, offset + 1)
        self.queue.purge()
        partition = self.queue.partitions[0]
        assert partition.cursor.low_water == partition.log.next_offset
        assert partition.log.tail_bytes() == 0


TestQueueAgainstList = QueueAgainstList.TestCase
TestQueueAgainstList.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
