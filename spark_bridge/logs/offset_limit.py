"""Limits of reading: the earliest or latest offset, an offset for each partition, or a time.

Source:
    `startingOffsets`, `startingTimestamp`, `startingOffsetsByTimestamp` and their like for the end,
    of Spark's Kafka source.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from routelog.spark_bridge.logs.errors import BadOption
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange, ReadableLogs

EARLIEST = -2
LATEST = -1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = {"earliest": EARLIEST, "latest": LATEST}
_OFFSETS_FORM = 'expected earliest, latest or JSON like {"audit": {"0": 123}}'
_TIME_FORM = "expected milliseconds since 1970 or ISO 8601"
_TIMES_FORM = (
    'expected JSON with milliseconds since 1970 or ISO 8601, like {"audit": {"0": 1700000000000}}'
)


class Limit(Protocol):
    """The start or the end of reading, for all partitions."""

    @property
    def is_lasting(self) -> bool:
        """Whether it gives the same offsets when it is asked again later."""

    def check_covers(self, partitions: list[LogPartition]) -> None:
        """Refuse a limit for other partitions than those that are read.

        Raises:
            BadOption: names the missing or additional partitions.
        """

    def offset(self, store: ReadableLogs, held: OffsetRange) -> int:
        """Return the offset for one partition; it may be outside of its log.

        Raises:
            BadOption: there is no such record, and that is an error; or the limit lacks this partition, which
                is newer than those that were checked.
        """


@dataclass(frozen=True, slots=True)
class _Values:
    """The value of an option: `everywhere` for all partitions, or that of each (queue, partition)."""

    option: str
    everywhere: int | None
    places: Mapping[tuple[str, int], int]

    def check_covers(self, partitions: list[LogPartition]) -> None:
        """Refuse a limit for other partitions than those that are read."""
        if self.everywhere is None:
            read = self._check_has(partitions)
            if surplus := self.places.keys() - read:
                raise BadOption(self.option, f"names {_names(surplus)}, which are not read")

    def of(self, partition: LogPartition) -> int:
        """The value for one partition.

        Raises:
            BadOption: there is none.
        """
        if self.everywhere is not None:
            return self.everywhere
        self._check_has([partition])
        return self.places[partition.queue, partition.partition]

    def _check_has(self, partitions: list[LogPartition]) -> set[tuple[str, int]]:
        read = {(each.queue, each.partition) for each in partitions}
        if missing := read - self.places.keys():
            raise BadOption(self.option, f"has nothing for {_names(missing)}, which are read")
        return read


@dataclass(frozen=True, slots=True)
class OffsetLimit(_Values):
    """Limits as offsets, each of which may be EARLIEST or LATEST."""

    @property
    def is_lasting(self) -> bool:
        """Whether it does not contain the latest offset."""
        return not self.asks_for(LATEST)

    def asks_for(self, symbol: int) -> bool:
        """Whether EARLIEST or LATEST is meant anywhere."""
        return symbol == self.everywhere or symbol in self.places.values()

    def offset(self, store: ReadableLogs, held: OffsetRange) -> int:
        """Return the offset for one partition; it may be outside of its log.

        `held` is from the earliest to the latest offset.
        """
        value = self.of(held.partition)
        return {EARLIEST: held.start, LATEST: held.end}.get(value, value)


@dataclass(frozen=True, slots=True)
class TimeLimit(_Values):
    """Limits as times, in microseconds since 1970: the first record received then or later.

    If there is no such record, the latest offset is taken; with `must_match`, that is an error.
    """

    must_match: bool

    @property
    def is_lasting(self) -> bool:
        """Whether it never gives the latest offset."""
        return self.must_match

    def offset(self, store: ReadableLogs, held: OffsetRange) -> int:
        """Return the offset for one partition; it may be outside of its log."""
        found = store.offset_at(held.partition, self.of(held.partition))
        if found is None and self.must_match:
            reason = f"{held.partition} has no record of that time or later yet"
            hint = "startingOffsetsByTimestampStrategy=latest starts behind its last one"
            raise BadOption(self.option, f"{reason}; {hint}")
        return held.end if found is None else min(found, held.end)


def parse_offset_limit(option: str, text: str) -> OffsetLimit:
    """Read offsets: earliest, latest (in any case), or JSON with an offset for each partition.

    Raises:
        BadOption: the value makes no sense.
    """
    everywhere = _NAMES.get(text.strip().lower())
    places = {} if everywhere is not None else _parse_places(option, text, _offset, _OFFSETS_FORM)
    return OffsetLimit(option, everywhere, places)


def parse_time_limit(option: str, text: str, *, must_match: bool) -> TimeLimit:
    """Read a time for all partitions: milliseconds since 1970, or ISO 8601 (UTC without a zone).

    Raises:
        BadOption: the value makes no sense.
    """
    try:
        return TimeLimit(option, _time(text), {}, must_match)
    except ValueError:
        raise BadOption(option, f"{_TIME_FORM}, not '{text}'") from None


def parse_time_limits(option: str, text: str, *, must_match: bool) -> TimeLimit:
    """Read JSON with a time for each partition; see `parse_time_limit`.

    Raises:
        BadOption: the value makes no sense.
    """
    return TimeLimit(option, None, _parse_places(option, text, _time, _TIMES_FORM), must_match)


def _parse_places(
    option: str, text: str, parse: Callable[[object], int], form: str
) -> dict[tuple[str, int], int]:
    try:
        values = json.loads(text)
        return {
            (queue, int(partition)): parse(value)
            for queue, by_partition in values.items()
            for partition, value in by_partition.items()
        }
    except (ValueError, AttributeError):
        raise BadOption(option, form) from None


def _offset(value: object) -> int:
    if type(value) is not int or value < EARLIEST:
        raise ValueError
    return value


def _time(value: object) -> int:
    if isinstance(value, str) and not value.strip().isdecimal():
        at = datetime.fromisoformat(value.strip())
        since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
        return since // timedelta(microseconds=1)
    if type(value) is not int and not isinstance(value, str):
        raise ValueError
    milliseconds = int(value)
    if milliseconds < 0:
        raise ValueError
    return milliseconds * 1000


def _names(places: set[tuple[str, int]]) -> str:
    return ", ".join(f"'{queue}:{partition}'" for queue, partition in sorted(places))
