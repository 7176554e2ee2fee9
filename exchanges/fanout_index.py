"""The fanout exchange: every binding matches every message."""

from collections.abc import Iterable

from exchanges.binding import Binding
from exchanges.message import Message


class FanoutIndex:
    """All bindings, keys ignored."""

    key_decides = True
    reads_headers = False
    remembers = False

    def __init__(self) -> None:
        self._bindings: dict[Binding, None] = {}

    def check(self, binding: Binding) -> None:
        """Accept every binding."""

    def add(self, binding: Binding) -> None:
        """Add a binding."""
        self._bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        """Remove a binding."""
        self._bindings.pop(binding, None)

    def match(self, routing_key: bytes, message: Message) -> Iterable[Binding]:
        """Return all bindings."""
        return self._bindings
