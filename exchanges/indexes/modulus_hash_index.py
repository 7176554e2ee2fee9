"""The modulus hash exchange: the hash of the routing key, modulo the number of bindings, picks one of them.

A destination that is bound several times, under different keys, gets as many shares. A change of bindings
moves most keys to other destinations; the exchange type `x-consistent-hash` moves few.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.indexes.binding_index import Message
from routelog.exchanges.indexes.consistent_hash_index import hash64


class ModulusHashIndex:
    """All bindings, in an order that a restart does not change."""

    key_decides = True
    reads_headers = False
    remembers = False

    def __init__(self) -> None:
        self._bindings: list[Binding] = []

    def check(self, binding: Binding) -> None:
        """Accept every binding; its key has no meaning."""

    def add(self, binding: Binding) -> None:
        """Add a binding at its place."""
        insort(self._bindings, binding, key=_place)

    def remove(self, binding: Binding) -> None:
        """Remove a binding from its place."""
        at = bisect_left(self._bindings, _place(binding), key=_place)
        while self._bindings[at] != binding:
            at += 1
        del self._bindings[at]

    def match(self, routing_key: bytes, message: Message) -> Iterable[Binding]:
        """Return the one binding of a key, if there is any at all."""
        if not self._bindings:
            return ()
        return (self._bindings[hash64(routing_key) % len(self._bindings)],)


def _place(binding: Binding) -> tuple[str, ...]:
    arguments = repr(sorted(binding.arguments.items())) if binding.arguments else ""
    return (binding.destination_kind, binding.destination, binding.routing_key, arguments)
