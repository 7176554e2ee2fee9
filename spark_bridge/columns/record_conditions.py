"""Converts the filters of a query to bounds of partitions, offsets and times."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange, ReadableLogs

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter  # since Spark 4.1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The bounds of a comparison with a whole number: at least value + first, and below value + second; None: no
# bound.
_BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "EqualTo": (0, 1),
    "EqualNullSafe": (0, 1),
    "GreaterThan": (1, None),
    "GreaterThanOrEqual": (0, None),
    "LessThan": (None, 0),
    "LessThanOrEqual": (None, 1),
}


@dataclass(frozen=True, slots=True)
class RecordConditions:
    """Bounds that all wanted records meet; other records may meet them, too.

    Attributes:
        queues, partitions: None: all.
        offset_min, time_min: inclusive; times in microseconds since 1970.
        offset_end, time_end: exclusive; None: no end.
    """

    queues: frozenset[object] | None = None
    partitions: frozenset[object] | None = None
    offset_min: int = 0
    offset_end: int | None = None
    time_min: int = 0
    time_end: int | None = None

    def may_hold(self, partition: LogPartition) -> bool:
        """Whether records of a partition may meet the bounds."""
        return (self.queues is None or partition.queue in self.queues) and (
            self.partitions is None or partition.partition in self.partitions
        )

    def narrowed(
        self, store: ReadableLogs, held: OffsetRange, start: int, end: int
    ) -> tuple[int, int]:
        """Return the part of a partition's offsets [start, end) within the bounds."""
        start = max(start, self.offset_min)
        if self.offset_end is not None:
            end = min(end, self.offset_end)
        if self.time_min > 0:
            found = store.offset_at(held.partition, self.time_min)
            start = max(start, held.end if found is None else found)
        if self.time_end is not None:
            found = store.offset_at(held.partition, self.time_end)
            end = end if found is None else min(end, found)
        return start, end


NO_CONDITIONS = RecordConditions()


def conditions_of(filters: "Iterable[Filter]") -> RecordConditions:
    """Return the bounds of filters that must all hold; filters on other columns are ignored."""
    found = NO_CONDITIONS
    for each in filters:
        found = _with(found, each)
    return found


def _with(known: RecordConditions, condition: "Filter") -> RecordConditions:
    column = getattr(condition, "attribute", None)
    value = getattr(condition, "value", None)
    kind = type(condition).__name__
    if column in {("queue",), ("topic",)} and (values := _values(kind, value)) is not None:
        return replace(known, queues=values if known.queues is None else known.queues & values)
    if column == ("partition",) and (values := _values(kind, value)) is not None:
        both = values if known.partitions is None else known.partitions & values
        return replace(known, partitions=both)
    if column == ("offset",) and type(value) is int:
        least, end = _bounds(kind, value)
        return replace(
            known, offset_min=max(known.offset_min, least), offset_end=_lower(known.offset_end, end)
        )
    if column == ("timestamp",) and isinstance(value, datetime) and value.tzinfo:
        least, end = _bounds(kind, (value - _EPOCH) // timedelta(microseconds=1))
        return replace(
            known, time_min=max(known.time_min, least), time_end=_lower(known.time_end, end)
        )
    return known


def _values(kind: str, value: object) -> frozenset[object] | None:
    if kind in {"EqualTo", "EqualNullSafe"}:
        return frozenset([value])
    if kind == "In" and isinstance(value, tuple | list):
        return frozenset(value)
    return None


def _bounds(kind: str, value: int) -> tuple[int, int | None]:
    least, end = _BOUNDS.get(kind, (None, None))
    return 0 if least is None else value + least, None if end is None else value + end


def _lower(one: int | None, other: int | None) -> int | None:
    ends = [each for each in (one, other) if each is not None]
    return min(ends, default=None)
