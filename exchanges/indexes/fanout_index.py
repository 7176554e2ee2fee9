"""The fanout exchange: every binding matches every message."""

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
        self._held: Held = None

    def check(self, binding: Binding) -> None:
        """Accept every binding."""

    def add(self, binding: Binding) -> None:
        """Add a binding."""
        self._held = with_destination(self._held, binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding."""
        self._held = without_destination(self._held, binding)

    def match(self, routing_key: bytes, message: Message) -> Iterable[Match]:
        """Return where all bindings lead."""
        return matches(self._held)
