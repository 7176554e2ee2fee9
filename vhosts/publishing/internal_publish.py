"""Messages that the broker itself publishes, on their way: in as many turns of the event loop as it takes."""

import logging
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import NamedTuple, Protocol

from routelog.exchanges import (
    BARE_MESSAGE,
    ExchangeNotFound,
    Message,
    Route,
    RoutingTable,
)
from routelog.log_backend import (
    NOTHING,
    OWN_DEATHS_SHIFT,
    PERSISTENT,
    Clock,
    JournalFailed,
    Lane,
    LogStore,
    MalformedProperties,
    Receipt,
    Records,
    Scheduler,
    encode_records,
)
from routelog.vhosts.arguments.argument_table import decode_arguments
from routelog.vhosts.errors import TooLargeToRemember
from routelog.vhosts.messages.property_list import PropertyList, encode_table
from routelog.vhosts.messages.recipient import Recipient
from routelog.vhosts.publishing.appending import Appending
from routelog.vhosts.publishing.decision import Decision, Router
from routelog.vhosts.publishing.fan_out import disjoint, queues_of
from routelog.vhosts.publishing.stateful_route import StatefulRoute

# In the routes of messages that go together: to tell which queues they share takes up to 1.5 ms.
NAMES_MAX = 4_096
# What all queues get of the messages that move together: a block of the journal is built in memory.
MOVED_BYTES_MAX = 64 * 1024 * 1024
# Of a route of which one queue refused a message: of a wider one it is not known which queues took it, as the
# names are kept, and looked at, with each message that is tried again.
TAKEN_BY_MAX = 64
TOLD_AT_ONCE = 64  # queues, of those that messages moved to: 1 us each, 10 where consumers wait

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PublishRoutes:
    """How messages get from an exchange to queues.

    Attributes:
        passage: the way through exchanges that remember.
        recipients: what takes the messages of a route, see `RouteTargets.gradually`.
        logs: what the messages are appended to.
        scheduler: of the node.
    """

    routing: RoutingTable
    passage: Callable[[], StatefulRoute]
    recipients: Callable[[Route], Iterable[Recipient]]
    logs: LogStore
    scheduler: Scheduler
    clock: Clock


class OutgoingMessage(NamedTuple):
    """A message to be published.

    Attributes:
        properties: its property list.
        keys: routing keys; it carries the first.
        not_to: queues that it must not come to.
        own_deaths: entries at the head of its `x-death` that the broker wrote.
    """

    properties: bytes
    keys: Sequence[bytes]
    body: bytes
    not_to: Collection[str] = ()
    own_deaths: int = 0


class OutgoingMessages(Protocol):
    """Messages to be published, each made when it is asked for."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, place: int, /) -> OutgoingMessage:
        """Make one of them."""


class Posted(NamedTuple):
    """What became of some messages.

    Attributes:
        needed: covered when they are as safe as their queues promise.
        untaken: indexes of those that no queue took, or that one refused; what had to go to no queue is not
            among them.
        refused: those of them that a queue refused.
        failed: indexes of those that an error of the broker, which is logged, stopped: perhaps behind some of
            their queues, to which they would come each time that they are tried again.
        taken_by: of those that `settle` was just called for and that a queue refused: the queues that have them
            and must not get them again. A wide route, or one through an exchange that remembers, is left out.
    """

    needed: Receipt
    untaken: frozenset[int]
    refused: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    taken_by: Mapping[int, frozenset[str]] = {}


# Settles messages in their old place: their indexes, and what became of all messages so far.
Settle = Callable[[range, Posted], None]


class InternalPublish:
    """The messages of one publish to an exchange; one that is not there takes none.

    Each queue has them in order. They are made and routed as their turn comes. An error of the broker stops the
    message that it comes with; those that were tried with it may come twice.

    A message that moves is settled in its old place by the block of the journal that has it in all its new
    queues. If that takes several turns, the block stays open, as that of a transaction does. The exception is a
    message of which its queues get more than MOVED_BYTES_MAX: of its several blocks, the last one settles it.

    Args:
        attributes: of their batches, but KEY_COLUMN.
        origin: name of the exchange that they are said to come from.
        settle: called whenever some messages are in all their queues; its entries join the block. None: the
            messages do not move, they have no old place.
        keeps_refused: `settle` keeps what a full queue refuses, to try it again: that makes no dead letter.

    What moved is handed out when its block is what it promises (`LogEnd.ready_end`); its queues are told then.
    """

    def __init__(
        self,
        ways: PublishRoutes,
        exchange: str,
        messages: OutgoingMessages,
        attributes: int,
        origin: bytes,
        settle: Settle | None = None,
        *,
        keeps_refused: bool = False,
    ) -> None:
        self._ways = ways
        self._settle = settle
        self.keeps_refused = keeps_refused
        self._settled_end = 0  # `settle` was called for the messages before
        # What does not survive a crash needs no block; see MOVED_BYTES_MAX, too.
        self._moves = settle is not None and bool(attributes & PERSISTENT)
        self._is_one_block = False  # the messages whose way was looked for last
        self._holds = False  # the journal's block is open for them
        self._targets: dict[Recipient, None] = {}  # that have them
        self._exchange = exchange
        self._messages = messages
        self._attributes = attributes
        self._origin = origin
        self._appending = Appending(ways.scheduler)
        self._router = Router(ways.routing, ways.scheduler, ways.passage, names_max=NAMES_MAX)
        self._first = 0  # of those whose way was looked for last
        self._at = 0  # the first one whose way was not looked for
        self._alone_until = 0  # up to there each goes alone: one of them failed
        self._made: dict[int, OutgoingMessage] = {}  # of those whose way was looked for last
        self._routes: dict[int, Route] = {}  # of these
        self._needed: Receipt = NOTHING
        self._untaken: set[int] = set()
        self._refused: dict[int, set[str]] = {}  # with the queues that refused it
        self._failed: set[int] = set()

    @property
    def posted(self) -> Posted:
        """What has become of them, when all are on their way."""
        refused, failed = frozenset(self._refused), frozenset(self._failed)
        return Posted(self._needed, refused | self._untaken, refused, failed)

    def go_on(self, whole: bool) -> bool:
        """Publish as much as a turn is to bear, or all that is left; returns whether it was all.

        Raises:
            JournalFailed: the disk failed before; some may be in their queues, in memory.
        """
        while True:
            try:
                return self._go_on(whole)
            except JournalFailed:
                self._let_go()
                raise
            except Exception as error:
                self._go_back(error)
            if not whole:
                return False

    def _go_back(self, error: Exception) -> None:
        # To find whose error it is: the others have their way without it.
        self._let_go()
        if self._first == len(self._messages):
            raise error  # behind the last one
        tried = range(self._first, self._at)
        self._untaken.difference_update(tried)
        for place in tried:
            self._refused.pop(place, None)
        self._appending.refused.clear()
        if len(tried) > 1:
            self._at, self._alone_until = tried.start, tried.stop
            return
        self._failed.add(self._first)
        self._first = self._at = self._first + 1
        log.error("an error of the broker, posting to '%s'", self._exchange, exc_info=error)

    def _go_on(self, whole: bool) -> bool:
        appending = self._appending
        has_begun = appending.is_under_way  # a turn does something, however short it is
        if has_begun:
            self._append(appending.go_on)
        else:
            appending.begin(True)
        while not appending.is_under_way:
            if self._at == len(self._messages):
                self._tell_later()  # if the last one failed
                self._settle_some()
                return True
            if has_begun and not whole and self._ways.scheduler.is_over():
                return False
            has_begun = True
            if self._moves and not whole and self._ways.logs.journal.is_held:
                return False  # its holder might let it go before all of these messages are in it
            try:
                self._publish_some(whole)
            except ExchangeNotFound:
                self._untaken.update(range(self._first, len(self._messages)))
                self._at = len(self._messages)
        return False

    def _publish_some(self, whole: bool) -> None:
        self._first = self._at
        self._made.clear()
        self._routes.clear()
        # One by one, too, where an exchange remembers: an error must not undo what it knows of another.
        is_alone = self._first < self._alone_until or self._ways.routing.remembers(self._exchange)
        end = self._first + 1 if is_alone else len(self._messages)
        decision = self._router.decide(self._exchange, self, self._first, end, whole)
        self._is_one_block = self._moves and self._bytes(decision) <= MOVED_BYTES_MAX
        if self._moves and not self._is_one_block and decision.end > self._first + 1:
            self._at, self._alone_until = self._first, decision.end
            return
        self._at = decision.end
        self._untaken.update(decision.returned)
        batches, passage = self._batches(decision.deliver), decision.passage
        if passage is None:
            self._append(lambda: self._appending.append(batches, whole))
            return
        self._routes.clear()  # only the first queue is known that refuses what goes through it
        asked = bool(self._attributes & PERSISTENT)
        stored = [(records, tuple(to), places) for records, to, places in batches]
        try:
            self._append(lambda: passage.store(stored, self._appending, asked, self._encoded))
        except TooLargeToRemember:
            self._untaken.add(self._first)

    def _bytes(self, decision: Decision) -> int:
        # That all queues get at most, and of a single message just so.
        size = sum([len(each.body) + len(each.properties) for each in self._made.values()])
        count: int = queues_of(decision.deliver)
        return size * count

    def _append(self, append: Callable[[], Receipt]) -> None:
        logs = self._ways.logs
        with logs.together() if self._is_one_block else nullcontext():
            logs.intake.is_moving = self._moves
            try:
                self._reached(append())
            finally:
                logs.intake.is_moving = False
            if not self._appending.is_under_way:
                self._tell_later()
                self._settle_some()
        if not self._appending.is_under_way:
            self._let_go()
        elif self._is_one_block and not self._holds:
            logs.journal.hold()
            self._holds = True

    def _settle_some(self) -> None:
        first, self._settled_end = self._settled_end, self._at
        if self._settle is None or first == self._at:
            return
        try:
            places = range(first, self._at)
            self._settle(places, self.posted._replace(taken_by=self._taken_by(places)))
        except JournalFailed:
            raise
        except Exception as error:  # a fault of ours: they are published, and must not be once more
            log.error("an error of the broker, behind what it published", exc_info=error)

    def _tell_later(self) -> None:
        targets, self._targets = self._targets, {}
        if not targets:
            return
        groups = self._ways.logs.journal.groups
        # The last block that has anything; an error may have hidden which one has these.
        position = groups.last.position if groups.last.count else groups.last.position - 1
        if position > groups.promised:
            tell = partial(tell_moved, list(targets), self._ways.scheduler)
            self._ways.logs.progress.receipt(position, 0).when_covered(tell)

    def _taken_by(self, places: range) -> Mapping[int, frozenset[str]]:
        if not (self._refused and self.keeps_refused):
            return {}
        shared: dict[tuple[Route, frozenset[str], frozenset[str]], frozenset[str]] = {}
        taken_by: dict[int, frozenset[str]] = {}
        for place in places:
            names, route = self._refused.get(place), self._routes.get(place, ())
            if names is None or len(route) > TAKEN_BY_MAX:
                continue
            key = route, frozenset(names), frozenset(self._made[place].not_to)
            if key not in shared:
                shared[key] = key[2].union(route) - key[1]
            taken_by[place] = shared[key]
        return taken_by

    def _noted(self, recipients: Iterable[Recipient]) -> Iterator[Recipient]:
        for each in recipients:
            if self._moves:
                self._targets[each] = None
            yield each
            self._note_refused()  # of several queues, too: `Appending` keeps the first one

    def _let_go(self) -> None:
        if self._holds:
            self._holds = False
            self._ways.logs.journal.let_go()

    def _reached(self, receipt: Receipt) -> None:
        self._needed = self._needed.joined(receipt)
        self._note_refused()

    def _note_refused(self) -> None:
        for place, queue in self._appending.refused.items():
            self._refused.setdefault(place, set()).add(queue.name)
        self._appending.refused.clear()

    def _batches(
        self, deliver: dict[Route, list[int]]
    ) -> Iterator[tuple[Records, Iterable[Recipient], Sequence[int]]]:
        chosen: dict[Route, list[int]] = {}
        for route, places in deliver.items():
            for place in places:
                not_to = self._made[place].not_to
                left = _without(route, not_to) if not_to else route
                if left:
                    chosen.setdefault(left, []).append(place)
                    self._routes[place] = left
        ordered = disjoint({route: sorted(places) for route, places in chosen.items()})
        # Whom a message is for is settled when its route is found; later, some of them may have gone.
        found = [
            (self._ways.recipients(route), list(alike))
            for route, places in ordered.items()
            for _, alike in groupby(places, lambda place: self._made[place].own_deaths)
        ]
        if self._moves or self.keeps_refused:
            found = [(self._noted(to), places) for to, places in found]
        return ((self._encoded(places), to, places) for to, places in found)

    # What its messages are to a decision, see `Messages`.
    shared_key = single_keys = None

    def keys(self, index: int) -> Sequence[bytes]:
        """See `Messages`; makes the message."""
        self._at = index + 1
        message = self._made[index] = self._messages[index]
        return message.keys

    def properties(self, index: int) -> Message:
        """See `Messages`."""
        return decoded_message(self._made[index].properties)

    def _encoded(self, places: Sequence[int]) -> Records:
        source, rows = bytearray(), array("i")
        messages = [self._made[place] for place in places]
        for message in messages:
            for part in (message.keys[0], message.properties, message.body):
                rows.extend((len(source), len(part)))
                source += part
        keys = {message.keys[0] for message in messages}
        batch: Records = encode_records(
            memoryview(source),
            memoryview(rows),
            None,
            len(messages),
            self._origin,
            keys.pop() if len(keys) == 1 else None,
            self._attributes | messages[0].own_deaths << OWN_DEATHS_SHIFT,
            self._ways.clock.now(),
        )
        return batch


def tell_moved(targets: Sequence[Recipient], scheduler: Scheduler) -> None:
    """Tell queues that what moved to them may be handed out: many of them in turns."""
    steps = _telling(targets)
    if len(targets) > TOLD_AT_ONCE:
        scheduler.run(steps, Lane.JOBS)
        return
    for _ in steps:
        pass


def _telling(targets: Sequence[Recipient]) -> Iterator[None]:
    for at, each in enumerate(targets, 1):
        if not each.deleted:
            each.transaction_ended(failed=False)
        if at % TOLD_AT_ONCE == 0:
            yield


def _without(route: Route, not_to: Collection[str]) -> Route:
    names = set(not_to)
    return route if names.isdisjoint(route) else tuple(n for n in route if n not in names)


def decoded_message(properties: bytes) -> Message:
    """What exchanges see of a message by its property list; nothing of one that is malformed."""
    try:
        listed = PropertyList(properties)
        return Message(decode_arguments(encode_table(listed.headers)[4:]), listed.value)
    except MalformedProperties:
        return BARE_MESSAGE
