"""The queues of a load: each has its own promise, and a ledger that knows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from crash.kills.ledger import CursorLedger, MessageLedger
from crash.kills.numbered_message import NumberedMessages

BODY_BYTES = (14, 100, 100, 1_000, 8_000, 60_000)
COMPRESSIONS = ("none", "zstd", "lz4")
KEYS = 11  # more than partitions, and not a multiple of them
GROUP = "readers"
FILTER_VALUES = ("eu", "", "us", "eu,us")  # of message n, by n modulo 4


@dataclass(frozen=True)
class Filter:
    """Of a group.

    Attributes:
        arguments: of basic.consume.
        matching: message n modulo 4.
    """

    arguments: Mapping[str, object]
    matching: Collection[int]

    def matches(self, sequence: int) -> bool:
        """Whether the group is to get a message."""
        return sequence % len(FILTER_VALUES) in self.matching


FILTERS = (
    Filter({"x-stream-filter": "eu"}, {0, 3}),
    Filter({"x-stream-filter": ["us"], "x-stream-match-unfiltered": True}, {1, 2, 3}),
    Filter({"x-filter": "[x-stream-filter-value] LIKE 'eu_us'"}, {3}),
)


@dataclass(frozen=True)
class Cursor:
    """One way through a queue: that of its own consumers, or that of a group."""

    messages: NumberedMessages
    ledger: CursorLedger
    arguments: Mapping[str, object] = field(default_factory=dict)
    is_filtered: bool = False


class LoadQueue:
    """A durable queue of a load, what was published to it, and who consumes it.

    Args:
        number: in the body of each message.
        lost: the levels of `x-durability` that do not survive the crashes of this load.
        filters: of a group each; its messages have FILTER_VALUES then.
    """

    def __init__(
        self,
        number: int,
        name: str,
        body_bytes: int,
        arguments: Mapping[str, object],
        lost: Collection[str],
        filters: Sequence[Filter] = (),
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.is_stream = arguments.get("x-queue-type") == "stream"
        self.keeps_log = self.is_stream or "x-retention" in arguments
        keys = KEYS if "x-partitions" in arguments else 1
        values = FILTER_VALUES if filters else ("",)
        self.messages = NumberedMessages(name, number, body_bytes, keys, filter_values=values)
        survives = arguments.get("x-durability") not in lost
        self.ledger = MessageLedger(name, keys=keys, survives=survives)
        self.cursors: list[Cursor] = []
        if not self.is_stream:
            self.cursors.append(Cursor(self.messages, CursorLedger(name, self.ledger)))
        if self.keeps_log:
            group = CursorLedger(f"group of {name}", self.ledger)
            self.cursors.append(Cursor(self.messages, group, _from_first(GROUP)))
        for each in filters:
            group_name = f"{GROUP} of {each.arguments}"
            ledger = CursorLedger(group_name, self.ledger, each.matches)
            of_group = {**_from_first(group_name), **each.arguments}
            self.cursors.append(Cursor(self.messages, ledger, of_group, is_filtered=True))

    def check_count(self, count: int) -> None:
        """Check how many messages the queue says it has, while nobody consumes.

        Raises:
            PromiseBroken: too few or too many.
        """
        cursor = CursorLedger(self.name, self.ledger) if self.is_stream else self.cursors[0].ledger
        cursor.check_count(count)


def _from_first(group: str) -> dict[str, object]:
    return {"x-group": group, "x-stream-offset": "first"}


def load_queues(lost: Collection[str]) -> list[LoadQueue]:
    """One of each kind: plain ones of all sizes and compressions, and those with arguments.

    Args:
        lost: see `LoadQueue`.
    """
    kinds: list[tuple[str, int, Mapping[str, object]]] = [
        (f"load-{number}", body_bytes, {"x-compression": compression})
        for number, (body_bytes, compression) in enumerate(zip(BODY_BYTES, cycle(COMPRESSIONS)))
    ]
    kinds += [
        ("os", 100, {"x-durability": "os"}),
        ("memory", 100, {"x-durability": "memory"}),
        ("partitions", 100, {"x-partitions": 4}),
        ("retention", 300, {"x-retention": "1D", "x-compression": "lz4"}),
        ("stream", 300, {"x-queue-type": "stream", "x-compression": "zstd"}),
    ]
    queues = [LoadQueue(number, *kind, lost) for number, kind in enumerate(kinds)]
    stream = {"x-queue-type": "stream"}
    return [*queues, LoadQueue(len(kinds), "filtered", 300, stream, lost, FILTERS)]
