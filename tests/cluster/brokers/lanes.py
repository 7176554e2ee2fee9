"""The kinds of queues that the load uses: what is published to, what becomes of it, and where it ends.

Each message of a lane ends in the log of one queue, its home, exactly once. Homes keep what is settled, so that
the logs of all nodes can be looked at afterwards, and for longer than clocks jump.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Any

Arguments = Mapping[str, Any]

QUEUE = "orders"
_KEPT = {"x-retention": "7d"}
_DELAY_SECONDS_MAX = 8.0  # longer than a leader is away: it leads again before they are due
_PRIORITIES = 5


class Answer(Enum):
    """What a consumer does with what it is given."""

    ACK = auto()
    RETURN_ONCE = auto()  # nack the first time; what comes again is acknowledged
    REJECT = auto()
    MOVE = auto()  # publish it to the home and acknowledge it, in one transaction
    READ = auto()  # of a stream: nothing is settled, each reader reads on where it was


@dataclass(frozen=True, slots=True)
class Consumption:
    """A consumer of a lane.

    Attributes:
        reader: each gets each message: a group's name, or that of a reader of a stream.
    """

    queue: str
    answer: Answer = Answer.ACK
    reader: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """One kind.

    Attributes:
        home: see the module.
        queues: all that are declared, with arguments.
        consumptions: each is a client of its own.
        publishers: clients that publish.
        slots: publishes without an answer at once, of each of them.
        exchange: published to; its type and arguments. Else the default exchange.
        key: published with.
        along: queues that get the same by their own publishes of the same transaction.
        leftover: a queue where messages may be that have not come to the home.
        repeats: what was not confirmed is published again, with the same key, and some that was.
        is_ordered: the home has messages in the order of publishing.
        comes_in_order: what is delivered the first time comes in the order of the home's log.
        headers, priority: of a message.
    """

    name: str
    home: str
    queues: Mapping[str, Arguments]
    consumptions: tuple[Consumption, ...]
    publishers: int = 1
    slots: int = 3
    exchange: tuple[str, str, Arguments] | None = None
    key: str = ""
    along: tuple[str, ...] = ()
    leftover: str = ""
    repeats: bool = False
    is_ordered: bool = True
    comes_in_order: bool = True
    headers: Callable[[int, Random], dict[str, Any]] = field(default=lambda number, randomness: {})
    priority: Callable[[int], int | None] = field(default=lambda number: None)

    @property
    def readers(self) -> frozenset[str]:
        """Each of them gets each message: groups, or all consumers as one, whose name is empty."""
        ends = [each for each in self.consumptions if each.queue == self.home]
        return frozenset(each.reader for each in ends)


def _one_queue(name: str, **arguments: Any) -> Lane:
    declared = {each.replace("_", "-"): value for each, value in arguments.items()}
    return Lane(name, name, {name: _KEPT | declared}, (Consumption(name),))


def _dead_letters(queue: str, home: str, **arguments: Any) -> dict[str, Arguments]:
    declared = {each.replace("_", "-"): value for each, value in arguments.items()}
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": home}
    return {queue: declared | letters, home: _KEPT}


DURABLE = Lane("durable", QUEUE, {QUEUE: _KEPT}, 3 * (Consumption(QUEUE),), publishers=3, slots=8)
QUORUM = _one_queue("quorum", x_queue_type="quorum")
STREAM = Lane(
    "stream",
    "audit",
    {"audit": {"x-queue-type": "stream"}},
    tuple(Consumption("audit", Answer.READ, reader) for reader in ("first", "second")),
)
GROUP = Lane(
    "group",
    "events",
    {"events": {"x-queue-type": "stream"}},
    (Consumption("events", reader="billing"), Consumption("events", reader="search")),
)
PRIORITY = Lane(
    "priority",
    "urgent",
    {"urgent": {**_KEPT, "x-max-priority": _PRIORITIES}},
    (Consumption("urgent"),),
    comes_in_order=False,
    priority=lambda number: number % (_PRIORITIES + 1),
)
DELAYED = Lane(
    "delayed",
    "reminders",
    {"reminders": _KEPT},
    (Consumption("reminders"),),
    exchange=("later", "x-delayed-message", {"x-delayed-type": "direct"}),
    key="reminders",
    is_ordered=False,
    headers=lambda number, randomness: {
        "x-delay": round(1_000 * randomness.uniform(0, _DELAY_SECONDS_MAX))
    },
)
EXPIRING = Lane(
    "expiring",
    "expired",
    _dead_letters("expiring", "expired", x_message_ttl=700),
    (Consumption("expired"),),
)
LIMITED = Lane(
    "limited",
    "overflow",
    _dead_letters("limited", "overflow", x_max_length=10),
    (Consumption("overflow"),),
    leftover="limited",
)
REJECTED = Lane(
    "rejected",
    "failed",
    _dead_letters("rejected", "failed"),
    (Consumption("rejected", Answer.REJECT), Consumption("failed")),
    is_ordered=False,
)
RETRIED = Lane(
    "retried",
    "retried",
    {
        "retried": {
            **_KEPT,
            "x-delayed-retry-type": "all",
            "x-delayed-retry-min": 300,
            "x-delayed-retry-max": 900,
        }
    },
    (Consumption("retried", Answer.RETURN_ONCE),),
)
ONCE = Lane(
    "once",
    "once",
    {"once": _KEPT},
    (Consumption("once"),),
    exchange=(
        "keyed",
        "x-message-deduplication",
        {"x-cache-size": 100_000, "x-cache-persistence": "disk"},
    ),
    key="once",
    repeats=True,
    comes_in_order=False,  # where it was first may have been cut, and it is published again
    headers=lambda number, randomness: {"x-deduplication-header": str(number)},
)
TRANSACTED = Lane(
    "transacted",
    "moved",
    {"taken": _KEPT, "paired": _KEPT, "moved": _KEPT},
    (Consumption("taken", Answer.MOVE), Consumption("moved")),
    slots=1,
    key="taken",
    along=("taken", "paired"),
    is_ordered=False,
)
LANES = {
    lane.name: lane
    for lane in (
        DURABLE,
        QUORUM,
        STREAM,
        GROUP,
        PRIORITY,
        DELAYED,
        EXPIRING,
        LIMITED,
        REJECTED,
        RETRIED,
        ONCE,
        TRANSACTED,
    )
}
