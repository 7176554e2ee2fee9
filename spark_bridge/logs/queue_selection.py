"""Selects the queues that a query reads: by name, by a pattern, or partition by partition."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from routelog.spark_bridge.logs.errors import BadOption
from routelog.spark_bridge.logs.readable_logs import LogPartition

_NO_LOG = (
    "in the vhost: there is no such queue, nothing was written to it yet, or all of it was consumed; a queue "
    "keeps a log of what was consumed when it is declared with x-retention (such as 7d), or as a stream "
    "(x-queue-type: stream)"
)
_ASSIGN_FORM = 'expected JSON like {"audit": [0, 1]}'


class QueueSelection(Protocol):
    """Selects partitions of a vhost."""

    @property
    def queues(self) -> frozenset[str] | None:
        """Names of the queues that it can select; None: any."""

    def select(
        self, partitions: list[LogPartition], *, missing_is_error: bool = True
    ) -> list[LogPartition]:
        """Return the partitions to read.

        Raises:
            BadOption: a queue or partition that is named does not exist, and that is an error.
        """


@dataclass(frozen=True, slots=True)
class NamedQueues:
    """`subscribe`: all partitions of the queues with these names."""

    queues: frozenset[str]

    def select(
        self, partitions: list[LogPartition], *, missing_is_error: bool = True
    ) -> list[LogPartition]:
        """Return the partitions of the queues; each must have a log."""
        missing = self.queues - {each.queue for each in partitions}
        if missing and missing_is_error:
            raise BadOption("subscribe", f"no log of {_quoted(missing)} {_NO_LOG}")
        return [each for each in partitions if each.queue in self.queues]


@dataclass(frozen=True, slots=True)
class MatchingQueues:
    """`subscribePattern`: all partitions of the queues whose whole name matches."""

    pattern: re.Pattern[str]

    @property
    def queues(self) -> None:
        """All queues may match."""

    def select(
        self, partitions: list[LogPartition], *, missing_is_error: bool = True
    ) -> list[LogPartition]:
        """Return the partitions of the queues that match; there may be none."""
        return [each for each in partitions if self.pattern.fullmatch(each.queue)]


@dataclass(frozen=True, slots=True)
class AssignedPartitions:
    """`assign`: these partitions."""

    places: frozenset[tuple[str, int]]

    @property
    def queues(self) -> frozenset[str]:
        """The queues of the assigned partitions."""
        return frozenset(queue for queue, _ in self.places)

    def select(
        self, partitions: list[LogPartition], *, missing_is_error: bool = True
    ) -> list[LogPartition]:
        """Return the partitions assigned; each must have a log."""
        missing = self.places - {(each.queue, each.partition) for each in partitions}
        if missing and missing_is_error:
            names = _quoted(f"{queue}:{partition}" for queue, partition in missing)
            raise BadOption("assign", f"no log of {names} {_NO_LOG}")
        return [each for each in partitions if (each.queue, each.partition) in self.places]


def parse_selection(options: Mapping[str, str]) -> QueueSelection:
    """Parse the one of the three options that is given.

    Raises:
        BadOption: none or several are given, or the value is invalid.
    """
    given = [option for option in _PARSERS if option in options]
    if len(given) != 1:
        names = ", ".join(given) or "none"
        raise BadOption(" / ".join(_PARSERS), f"give exactly one of them, not {names}")
    return _PARSERS[given[0]](options[given[0]])


def _parse_subscribe(text: str) -> QueueSelection:
    queues = frozenset(name.strip() for name in text.split(",")) - {""}
    if not queues:
        raise BadOption("subscribe", "names no queue")
    return NamedQueues(queues)


def _parse_pattern(text: str) -> QueueSelection:
    try:
        return MatchingQueues(re.compile(text))
    except re.error as error:
        raise BadOption("subscribePattern", f"no regular expression: {error}") from None


def _parse_assign(text: str) -> QueueSelection:
    try:
        assigned = json.loads(text)
    except ValueError:
        raise BadOption("assign", _ASSIGN_FORM) from None
    if not isinstance(assigned, dict) or not all(map(_are_partitions, assigned.values())):
        raise BadOption("assign", _ASSIGN_FORM)
    places = frozenset((queue, number) for queue in assigned for number in assigned[queue])
    if not places:
        raise BadOption("assign", "names no partition")
    return AssignedPartitions(places)


def _are_partitions(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


_PARSERS = {
    "subscribe": _parse_subscribe,
    "subscribePattern": _parse_pattern,
    "assign": _parse_assign,
}
