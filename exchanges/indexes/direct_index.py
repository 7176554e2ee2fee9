"""The direct exchange: a binding matches when its key is the message's key."""

from collections.abc import Iterable

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import (
    Held,
    Match,
    matches,
    with_destination,
    without_destination,
)
from routelog.exchanges.bindings.names import key_bytes
from routelog.exchanges.indexes.binding_index import Message


class DirectIndex:
    """Bindings by key."""

    key_decides = True
    reads_headers = False
    remembers = False

    def __init__(self) -> None:
        self._by_key: dict[bytes, Held] = {}

    def check(self, binding: Binding) -> None:
        """Accept every binding."""

    def add(self, binding: Binding) -> None:
        """Add a binding under its key."""
        key = key_bytes(binding.routing_key)
        self._by_key[key] = with_destination(self._by_key.get(key), binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding from under its key."""
        key = key_bytes(binding.routing_key)
        held = without_destination(self._by_key.get(key), binding)
        if held is None:
            self._by_key.pop(key, None)
        else:
            self._by_key[key] = held

    def match(self, routing_key: bytes, message: Message) -> Iterable[Match]:
        """Return the destinations of the bindings with exactly this key."""
        return matches(self._by_key.get(routing_key))
