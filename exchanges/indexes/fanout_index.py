"""Fanout exchanges: every binding matches every message."""

from collections.abc import Iterable

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import (
    Held,
    Match,
    matches,
    with_destination,
    without_destination,
)
from routelog.exchanges.bindings.message import Message


class FanoutIndex:
    """All bindings, keys ignored."""

    key_decides = True
    reads_headers = False
    remembers = False

    def __init__(self) -> None:
        self._destinations: Held = None

    def check(self, binding: Binding) -> None:
        """Accept every binding."""

    def add(self, binding: Binding) -> None:
        """Add a binding."""
        self._destinations = with_destination(self._destinations, binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding."""
        self._destinations = without_destination(self._destinations, binding)

    def match(self, routing_key: bytes, message: Message) -> Iterable[Match]:
        """Return the destinations of all bindings."""
        return matches(self._destinations)


class StatefulFanoutIndex(FanoutIndex):
    """A fanout whose exchange keeps state of earlier messages: deduplication or recent history."""

    key_decides = False
    reads_headers = True
    remembers = True
