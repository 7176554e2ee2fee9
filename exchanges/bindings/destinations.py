"""Where the bindings held at one place of an index lead: nowhere, one of them, or many.

Most keys lead to one binding, which is held bare. From the second on, the names that bindings lead to are held
instead of them, each once: 20,000 bindings lie all over the memory, and a walk that looked at each would wait
for it 20,000 times.
"""

from collections.abc import Iterable
from typing import Self

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.route import SORTED_MAX, Route, ordered_route


class Destinations:
    """Where two or more bindings lead; one that has been bound twice is unbound twice.

    Attributes:
        queues, exchanges: names, oldest first, with how many bindings lead to each.
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
        """Where bindings lead that lead to these queues; it is not for changes."""
        found = cls(())
        found.queues = dict.fromkeys(names, 1)
        return found

    def add(self, binding: Binding) -> None:
        """Add where a binding leads."""
        names = self._names(binding)
        names[binding.destination] = names.get(binding.destination, 0) + 1
        self._route = None

    def remove(self, binding: Binding) -> None:
        """Remove where a binding leads, unless another one leads there, too."""
        names = self._names(binding)
        names[binding.destination] -= 1
        if not names[binding.destination]:
            del names[binding.destination]
        self._route = None

    def route(self) -> Route:
        """Return the route to all queues; a long one is kept, so that it costs nothing to find again."""
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
    """Return what is held after adding a binding; `Destinations` are changed in place."""
    if held is None:
        return binding
    if isinstance(held, Binding):
        return Destinations((held, binding))
    held.add(binding)
    return held


def without_destination(held: Held, binding: Binding) -> Held:
    """Return what is held after removing a binding that is there, None when that was the last."""
    if isinstance(held, Destinations):
        held.remove(binding)
        return held if held.queues or held.exchanges else None
    return None


def matches(held: Held) -> tuple[Match, ...]:
    """Return what is held, if anything is."""
    return () if held is None else (held,)
