"""Routes, and the destinations of all bindings under one key or pattern of an index: none, one, or many.

A route is the queues that a message goes to, by name, each once.

Most keys have one binding, and the index holds that binding itself. From the second on it holds the names of
the destinations instead, each once: 20,000 bindings lie scattered in memory, and a walk over them would wait
for the memory 20,000 times.
"""

from collections.abc import Collection, Iterable
from typing import Self

from routelog.exchanges.bindings.binding import Binding

SORTED_MAX = 1_024  # names that are sorted: 0.1 ms

Route = tuple[str, ...]


def ordered_route(names: Collection[str]) -> Route:
    """Return a route to distinct queues, sorted by name, unless there are very many."""
    return tuple(names) if len(names) > SORTED_MAX else tuple(sorted(names))


class Destinations:
    """The destinations of two or more bindings; a destination bound twice must be unbound twice.

    Attributes:
        queues, exchanges: names, oldest first, with the number of bindings that lead to each.
    """

    __slots__ = ("_route", "exchanges", "queues")

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self.queues: dict[str, int] = {}
        self.exchanges: dict[str, int] = {}
        self._route: Route | None = None  # to all queues, while nothing changes
        for binding in bindings:
            self.add(binding)

    @classmethod
    def of_queues(cls, names: Iterable[str]) -> Self:
        """The destinations for a set of queues; the result must not be changed."""
        found = cls(())
        found.queues = dict.fromkeys(names, 1)
        return found

    def add(self, binding: Binding) -> None:
        """Add the destination of a binding."""
        names = self._names(binding)
        names[binding.destination] = names.get(binding.destination, 0) + 1
        self._route = None

    def remove(self, binding: Binding) -> None:
        """Remove the destination of a binding, unless another binding leads there, too."""
        names = self._names(binding)
        names[binding.destination] -= 1
        if not names[binding.destination]:
            del names[binding.destination]
        self._route = None

    def route(self) -> Route:
        """Return the route to all queues; a long route is cached."""
        if self._route is not None:
            return self._route
        route = ordered_route(self.queues)
        if len(route) > SORTED_MAX:
            self._route = route
        return route

    def _names(self, binding: Binding) -> dict[str, int]:
        return self.queues if binding.destination_kind == "queue" else self.exchanges


Held = Binding | Destinations | None
Match = Binding | Destinations


def with_destination(held: Held, binding: Binding) -> Match:
    """Return the destinations after adding a binding; `Destinations` are changed in place."""
    if held is None:
        return binding
    if isinstance(held, Binding):
        return Destinations((held, binding))
    held.add(binding)
    return held


def without_destination(held: Held, binding: Binding) -> Held:
    """Return the destinations after removing a binding, None when that was the last one."""
    if isinstance(held, Destinations):
        held.remove(binding)
        return held if held.queues or held.exchanges else None
    return None


def matches(held: Held) -> tuple[Match, ...]:
    """Return the destinations as matches: none or one."""
    return () if held is None else (held,)
