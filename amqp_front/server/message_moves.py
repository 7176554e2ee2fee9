"""Moves of messages by operators: each step is a transaction as that of a client, one block of the journal.

The block has the messages in their new queues, and their settlement in the old one: after a crash, each
message is in exactly one of both. A step finds out in one turn of the event loop which messages are still
ready, and begins its commit. Several moves of one queue may be under way: a message goes with one of them.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby

from routelog.amqp_front.consuming.settling import Settling
from routelog.amqp_front.consuming.unacked import Holder, UnackedRun
from routelog.amqp_front.node.services import Services
from routelog.amqp_front.transactions.commit import Commit
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.wire.errors import AmqpError
from routelog.log_backend import JournalFailed, Lane, Reason, Records, encode_records, pause
from routelog.vhosts import (
    SAMPLE_MAX,
    UNCOUNTED,
    DeliverySource,
    FoundMessage,
    MessageSearch,
    MovedMessage,
    MoveMode,
    MoveOrder,
    MoveReport,
    Place,
    Queue,
    Unmoved,
    VirtualHost,
    WithheldMessages,
)

STEP_MESSAGES = 256  # of one block: about 1 ms of the loop's time
STEP_BYTES = 262_144  # of their bodies, likewise; a larger message goes alone


class MoveStopped(Exception):
    """A step cannot be done now; the text says why."""


class MessageMoves:
    """Carries out the orders of operators for one queue.

    Args:
        vhost: of the queue.
    """

    def __init__(self, services: Services, vhost: VirtualHost, queue: Queue) -> None:
        self._services = services
        self.vhost = vhost
        self.counters = UNCOUNTED  # no channel's
        self._queue = queue
        self._version = 0  # of the topology by which the oldest message of the step has its route

    async def carry_out(self, search: MessageSearch, order: MoveOrder) -> MoveReport:
        """Move what a search finds, a step at a time, up to the limit of the order.

        An error ends it behind the steps that are done: the report says why, and where to go on.
        """
        report = MoveReport()
        step: list[MovedMessage] = []
        size = 0
        begin: list[Place] = []
        async for found in search.found():
            if not step:
                self._version = self.vhost.routing.version
            moved = _on_its_way(found, order, report)
            if moved is None:
                continue
            if not step:
                first = Place(found.partition, found.offset, search.places[0].end)
                begin = [first, *list(search.places)[1:]]
            step.append(moved)
            size += len(moved.body)
            is_last = report.count + len(step) >= order.limit
            if len(step) == STEP_MESSAGES or size >= STEP_BYTES or is_last:
                if not await self._step(step, order, report):
                    break
                step, size = [], 0
                if report.count >= order.limit:
                    break
        if step and not report.stopped:
            await self._step(step, order, report)
        report.places = begin if report.stopped else list(search.places)
        if report.places and self._queue.deleted:
            # A search of it finds nothing and goes no further: who asked for the rest would ask for ever.
            report.places = []
            report.stopped = report.stopped or f"{self._queue} was deleted"
        report.looked_at = search.looked_at
        return report

    async def _step(
        self, step: Sequence[MovedMessage], order: MoveOrder, report: MoveReport
    ) -> bool:
        # Returns whether it was done.
        report.sample += step[: SAMPLE_MAX - len(report.sample)]
        if order.is_dry_run:
            report.count += len(step)
            return True
        while self.vhost.hosted.logs.is_committing:
            await pause(Lane.OPERATORS)
        try:
            commit, count = self._begin(step, order, report)
            await commit.reached
        except (AmqpError, JournalFailed, MoveStopped) as error:
            report.stopped = str(error)
            return False
        report.count += count
        return True

    def _begin(
        self, step: Sequence[MovedMessage], order: MoveOrder, report: MoveReport
    ) -> tuple[Commit, int]:
        # In one turn of the event loop.
        gate = self._services.gate
        if self._queue.deleted:
            raise MoveStopped(f"{self._queue} was deleted")
        gate.look(self._services.clock.monotonic())
        if gate.closed and order.mode is not MoveMode.DELETE:
            raise MoveStopped(f"publishers wait: {', '.join(sorted(gate.reasons))}")
        routed = step
        if self.vhost.routing.version != self._version:
            anew = (_on_its_way(each.found, order, report) for each in step)
            routed = [each for each in anew if each is not None]
        withheld: list[tuple[DeliverySource, int, int]] = []
        try:
            if order.mode is not MoveMode.COPY:
                routed = list(self._withhold(routed, withheld, report))
            plan = self._plan(routed)
            plan.check(self.vhost.hosted.logs.progress)
            settlings = self._settlings(withheld)
            commit = Commit(self._services, self.vhost.hosted.logs.transaction(), plan, settlings)
        except BaseException:
            for source, first, end in withheld:
                source.give_back(first, end)
            raise
        return commit, len(routed)

    def _withhold(
        self,
        step: Sequence[MovedMessage],
        withheld: list[tuple[DeliverySource, int, int]],
        report: MoveReport,
    ) -> Iterator[MovedMessage]:
        # The messages that are still ready; nobody else gets them from here on.
        sources: dict[int, WithheldMessages] = {}
        for run in _neighbours(step):
            number, first = run[0].found.partition, run[0].found.offset
            source = sources.get(number)
            if source is None:
                source = sources[number] = self._queue.withheld(number)
            taken = source.take(first, first + len(run))
            withheld += ((source, begin, behind) for begin, behind in taken)
            for begin, behind in taken:
                yield from run[begin - first : behind - first]
            if missed := len(run) - sum(behind - begin for begin, behind in taken):
                report.skip("unacked", missed)

    def _plan(self, step: Sequence[MovedMessage]) -> CommitPlan:
        plan = CommitPlan(self.vhost.routing.version)
        now = self._services.clock.now()
        for _, group in groupby((each for each in step if each.route), _kind):
            messages = list(group)
            recipients = self.vhost.targets.of(messages[0].route)
            plan.add(_encoded(messages, now), recipients)
        return plan

    def _settlings(self, withheld: Sequence[tuple[DeliverySource, int, int]]) -> list[Settling]:
        tag = 1
        runs: list[UnackedRun] = []
        for source, first, end in withheld:
            runs.append(UnackedRun(tag, tag + end - first, source, first, None))
            tag += end - first
        if not runs:
            return []
        settling = Settling(self, runs, Reason.PURGED, self._services)
        while settling.prepare_some():
            pass
        return [settling]

    def begin_turn(self) -> None:
        """See `Holdings`: nobody has credit again."""

    def let_go(self, holder: Holder, count: int) -> None:
        """See `Holdings`: no consumer held them."""


def _on_its_way(found: FoundMessage, order: MoveOrder, report: MoveReport) -> MovedMessage | None:
    if found.state not in order.states:
        report.skip(str(found.state))
        return None
    moved = order.destination(found)
    if isinstance(moved, Unmoved):
        report.skip(str(moved))
        return None
    return moved


def _neighbours(step: Sequence[MovedMessage]) -> Iterator[list[MovedMessage]]:
    run: list[MovedMessage] = []
    for each in step:
        last = run[-1].found if run else None
        here = each.found.partition, each.found.offset
        if last is not None and (last.partition, last.offset + 1) != here:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _kind(moved: MovedMessage) -> tuple[object, ...]:
    # Of one batch.
    return moved.route, moved.exchange, moved.attributes


def _encoded(messages: Sequence[MovedMessage], now: int) -> Records:
    source, rows = bytearray(), array("i")
    for message in messages:
        for part in (message.routing_key, message.properties, message.body):
            rows.extend((len(source), len(part)))
            source += part
    keys = {message.routing_key for message in messages}
    first = messages[0]
    batch: Records = encode_records(
        memoryview(source),
        memoryview(rows),
        None,
        len(messages),
        first.exchange,
        keys.pop() if len(keys) == 1 else None,
        first.attributes,
        now,
    )
    return batch
