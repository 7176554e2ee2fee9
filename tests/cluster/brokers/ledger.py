"""What clients were told of each message, and what came to them."""

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from cluster.brokers.lanes import Lane

FILLER_BYTES_MAX = 1_200
EARLY_SECONDS_MAX = 0.05  # between the clocks of a client and of a node on one machine


@dataclass(slots=True)
class Told:
    """Of one message; times are monotonic.

    Attributes:
        due: not before then it may come.
    """

    lane: Lane
    published: float
    confirmed: float = 0.0
    due: float = 0.0


@dataclass(slots=True)
class Hearing:
    """What one client of a queue has heard over one connection.

    Attributes:
        firsts: what came without a mark, and when, in order.
    """

    lane: Lane
    queue: str
    reader: str
    firsts: list[tuple[int, float]] = field(default_factory=list)


class Ledger:
    """Each message is a number. One without a confirm may be there or not.

    Attributes:
        told: of each message.
        deliveries: by reader and number, how often each came to the end of its lane.
        unmarked: by reader, queue and number: when each came that was not marked as redelivered.
        hearings: by connection.
        leftover: what was found on its way when all was over.
        wrong: what can never be right, in words.
        mind_early: whether delayed messages must not come early: clocks of nodes did not jump.
    """

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.deliveries: Counter[tuple[str, int]] = Counter()
        self.unmarked: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
        self.hearings: list[Hearing] = []
        self.leftover: set[int] = set()
        self.wrong: list[str] = []
        self.mind_early = True
        self.last_delivery = 0.0
        self._stream: dict[tuple[str, int], int] = {}

    @property
    def confirmed(self) -> set[int]:
        """The numbers of what was confirmed."""
        return {number for number, each in enumerate(self.told) if each.confirmed}

    def publish(self, lane: Lane) -> int:
        """A message that is about to be given to a client library."""
        self.told.append(Told(lane, time.monotonic()))
        return len(self.told) - 1

    def confirm(self, number: int) -> None:
        """The broker says that it is safe."""
        told = self.told[number]
        told.confirmed = told.confirmed or time.monotonic()

    def hear(self, lane: Lane, queue: str, reader: str) -> Hearing:
        """A client begins to take from a queue."""
        self.hearings.append(Hearing(lane, queue, reader))
        return self.hearings[-1]

    def came(self, hearing: Hearing, body: bytes, *, is_marked: bool) -> int:
        """Something was delivered; returns its number."""
        now = self.last_delivery = time.monotonic()
        number = self._number(hearing, body)
        if not is_marked:
            hearing.firsts.append((number, now))
            self.unmarked[hearing.reader, hearing.queue, number].append(now)
        due = self.told[number].due
        if self.mind_early and now < due - EARLY_SECONDS_MAX:
            self.wrong.append(f"{number} came {due - now:.2f} s early")
        return number

    def ends(self, hearing: Hearing, number: int) -> None:
        """A message has come to the end of its lane."""
        if hearing.queue == hearing.lane.home:
            self.deliveries[hearing.reader, number] += 1

    def read(self, hearing: Hearing, offset: int, expected: int | None, number: int) -> None:
        """A reader of a stream has read a record."""
        queue = hearing.queue
        if expected is not None and offset != expected:
            self.wrong.append(f"{queue}: offset {offset} came where {expected} is next")
        before = self._stream.setdefault((queue, offset), number)
        if before != number:
            self.wrong.append(f"{queue}: offset {offset} was {before}, and is {number}")

    @property
    def lost(self) -> set[int]:
        """Confirmed, and never delivered to somebody who must get it."""
        return {
            number
            for number, each in enumerate(self.told)
            if each.confirmed
            and number not in self.leftover
            and any((reader, number) not in self.deliveries for reader in each.lane.readers)
        }

    @property
    def twice(self) -> dict[int, list[float]]:
        """Delivered twice without a mark, to one reader of one queue: when."""
        return {number: times for (_, _, number), times in self.unmarked.items() if len(times) > 1}

    def _number(self, hearing: Hearing, body: bytes) -> int:
        text = body.split(b" ", 1)[0]
        number = int(text) if text.isdigit() else -1
        is_ours = 0 <= number < len(self.told)
        if not is_ours or body_of(number) != body or self.told[number].lane is not hearing.lane:
            self.wrong.append(f"{hearing.queue}: {body[:40]!r} came, which nobody published there")
            raise ValueError(body[:40])
        return number


def body_of(number: int) -> bytes:
    """What is published: the number, and so much more that logs grow."""
    return b"%d " % number + b"x" * (number * 7 % FILLER_BYTES_MAX)


def number_in(body: bytes) -> int:
    """The number of a body that is in a log."""
    return int(body.split(b" ", 1)[0])
