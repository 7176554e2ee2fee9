"""Where reading starts or ends: at the earliest or latest offset, or partition by partition.

Source:
    `startingOffsets` and `endingOffsets` of Spark's Kafka source.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from spark_bridge.errors import BadOption
from spark_bridge.log_store import LogPartition

EARLIEST = -2
LATEST = -1

_NAMES = {"earliest": EARLIEST, "latest": LATEST}
_FORM = 'expected earliest, latest or JSON like {"audit": {"0": 123}}'


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """One side of what is read, for all partitions.

    `everywhere` is EARLIEST or LATEST; None takes each (queue, partition)'s offset from
    `places`, which may be EARLIEST or LATEST too.
    """

    option: str
    everywhere: int | None
    places: Mapping[tuple[str, int], int]

    def check_covers(self, partitions: list[LogPartition]) -> None:
        """Refuse offsets for other partitions than those that are read.

        Raises:
            BadOption: names what is missing or too much.
        """
        if self.everywhere is not None:
            return
        read = {(each.queue, each.partition) for each in partitions}
        if missing := read - self.places.keys():
            raise BadOption(self.option, f"has no offset for {_places(missing)}, which are read")
        if surplus := self.places.keys() - read:
            raise BadOption(self.option, f"has offsets for {_places(surplus)}, which are not read")

    def offset(self, partition: LogPartition, earliest: int, latest: int) -> int:
        """The offset for one partition, given what its log holds; it may lie outside of that."""
        value = self.everywhere
        if value is None:
            value = self.places[partition.queue, partition.partition]
        return {EARLIEST: earliest, LATEST: latest}.get(value, value)


def parse_offset_limit(option: str, text: str, *, refused: int) -> OffsetLimit:
    """Read an option's value.

    Args:
        option: its name, for errors.
        text: earliest, latest (in any case), or JSON with an offset for each partition.
        refused: EARLIEST or LATEST, whichever makes no sense on this side of a batch query.

    Raises:
        BadOption: the value makes no sense.
    """
    everywhere = _NAMES.get(text.strip().lower())
    places = {} if everywhere is not None else _parse_places(option, text)
    if refused == everywhere or refused in places.values():
        name = "earliest (-2)" if refused == EARLIEST else "latest (-1)"
        raise BadOption(option, f"cannot be {name} in a batch query")
    return OffsetLimit(option, everywhere, places)


def _parse_places(option: str, text: str) -> dict[tuple[str, int], int]:
    try:
        offsets = json.loads(text)
        return {
            (queue, int(partition)): _checked(offset)
            for queue, by_partition in offsets.items()
            for partition, offset in by_partition.items()
        }
    except (ValueError, AttributeError):
        raise BadOption(option, _FORM) from None


def _checked(offset: object) -> int:
    if type(offset) is not int or offset < EARLIEST:
        raise ValueError
    return offset


def _places(places: set[tuple[str, int]]) -> str:
    return ", ".join(f"'{queue}:{partition}'" for queue, partition in sorted(places))
