# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""A run whose messages go several ways to the same queues, shared out: each queue gets all of its own at once.

Routes that lead to the same queue are a chain, and all queues of a chain get the messages of its routes.
"""

from collections.abc import Iterator
from itertools import chain

import cython

from routelog.exchanges import Route

NAMES_AT_ONCE = 1_024  # 0.1 ms


@cython.locals(
    found=list,
    routes_max=cython.Py_ssize_t,
    names_max=cython.Py_ssize_t,
    first=cython.Py_ssize_t,
    chosen=dict,
    known=dict,
    at=cython.Py_ssize_t,
    names=cython.Py_ssize_t,
)
def by_route(
    found: list[Route], routes_max: int, names_max: int, first: int = 0
) -> dict[Route, list[int]]:
    """Return the indexes of the messages that have each route.

    Args:
        found: the route of each message; from that on which is beyond a limit, they are taken off its end.
        routes_max: different routes, at least 1.
        names_max: queues of all routes, one that is in several counted in each; the first route is no limit.
        first: index of the first message.
    """
    # A key has one object: a route to 100 queues is hashed in 1 us.
    chosen: dict[Route, list[int]] = {}
    known: dict[int, list[int]] = {}
    names = 0
    for at in range(len(found)):
        indexes = known.get(id(found[at]))
        if indexes is None:
            indexes = chosen.get(found[at])
            if indexes is None:
                names += len(found[at])
                if chosen and (len(chosen) >= routes_max or names > names_max):
                    del found[at:]
                    break
                indexes = chosen[found[at]] = []
            known[id(found[at])] = indexes
        indexes.append(first + at)
    return chosen


@cython.locals(chosen=dict, queues=cython.Py_ssize_t)
def queues_of(chosen: dict[Route, list[int]]) -> int:
    """How many queues the routes have, one that is in several counted in each."""
    queues = 0
    for route in chosen:
        queues += len(route)
    return queues


def disjoint(chosen: dict[Route, list[int]]) -> dict[Route, list[int]]:
    """Return the same messages for the same queues, but each queue in one route only.

    Cost:
        0.1 us for each queue of each route, as soon as one of them has two.
    """
    queues = queues_of(chosen)
    if len(chosen) == 1 or queues == len(chosen) or queues == len(set(chain(*chosen))):
        return chosen
    return dict(each for each in shared_out(chosen) if each is not None)


def shared_out(chosen: dict[Route, list[int]]) -> Iterator[tuple[Route, list[int]] | None]:
    """As `disjoint`, piece by piece.

    Returns:
        Routes with their messages; and None, wherever some names have been looked at.
    """
    ends: dict[str, int] = {}  # by queue, the chain of its routes
    chains = _Chains()
    for route, messages in chosen.items():
        further: dict[int, int] = {}  # from the chain without this route to the one with it
        for at in range(0, len(route), NAMES_AT_ONCE):
            chains.lengthen(route[at : at + NAMES_AT_ONCE], messages, ends, further)
            yield None
    names: dict[int, list[str]] = {}  # by chain
    are_shared = chains.are_long
    while ends:
        _gather(ends, names)  # from one to the other: all names at once would be long to let go of
        yield None
    if not are_shared:
        yield from chosen.items()
        return
    while names:
        number, queues = names.popitem()
        yield tuple(queues), chains.messages(number)


@cython.final
@cython.cclass
class _Chains:
    """Chains of routes by number, from 1 on: of each the last route's messages, and the chain before it."""

    befores = cython.declare(list)
    selections = cython.declare(list)

    def __init__(self) -> None:
        self.befores = [0]
        self.selections = [[]]

    @property
    def are_long(self) -> bool:
        """Whether there is one of more than a route."""
        return any(self.befores)

    @cython.ccall
    @cython.locals(ends=dict, further=dict, befores=list, selections=list)
    def lengthen(
        self, names: Route, messages: list[int], ends: dict[str, int], further: dict[int, int]
    ) -> None:
        befores, selections = self.befores, self.selections
        for name in names:
            before = ends.get(name, 0)
            end = further.get(before)
            if end is None:
                end = further[before] = len(befores)
                befores.append(before)
                selections.append(messages)
            ends[name] = end

    def messages(self, chain: int) -> list[int]:
        """All of a chain, in their order."""
        if not self.befores[chain]:
            return self.selections[chain]
        found: list[int] = []
        while chain:
            found += self.selections[chain]
            chain = self.befores[chain]
        return sorted(found)


@cython.cfunc
@cython.locals(ends=dict, names=dict, found=list, left=cython.Py_ssize_t)
def _gather(ends: dict[str, int], names: dict[int, list[str]]) -> None:
    left = NAMES_AT_ONCE
    while ends and left:
        left -= 1
        name, end = ends.popitem()
        found = names.get(end)
        if found is None:
            found = names[end] = []
        found.append(name)
