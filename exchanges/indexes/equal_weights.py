# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Destinations of one weight, and which of them scores best for a hash.

With equal weights the best score is that of the highest mixed hash, so each destination costs one comparison of
integers, and a logarithm is taken for the winner only.
"""

from array import array
from typing import Generic, Protocol, TypeVar

import cython

_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_FIRST = cython.declare(cython.ulonglong, 0xBF58476D1CE4E5B9)
_SECOND = cython.declare(cython.ulonglong, 0x94D049BB133111EB)


class Seeded(Protocol):
    """A destination.

    Attributes:
        seed: a 64-bit hash of its name.
        place: its number in `EqualWeights`; private to that class.
    """

    seed: int
    place: int


_Destination = TypeVar("_Destination", bound=Seeded)


class EqualWeights(Generic[_Destination]):
    """Destinations of one weight, in any order."""

    def __init__(self) -> None:
        self.destinations: list[_Destination] = []
        self._seeds = array("Q")

    def add(self, destination: _Destination) -> None:
        """Add a destination that is not in the set."""
        destination.place = len(self.destinations)
        self.destinations.append(destination)
        self._seeds.append(destination.seed)

    def remove(self, destination: _Destination) -> None:
        """Remove a destination; the last one takes its place."""
        last, seed = self.destinations.pop(), self._seeds.pop()
        if last is not destination:
            last.place = destination.place
            self.destinations[last.place], self._seeds[last.place] = last, seed

    @cython.locals(
        seeds=cython.ulonglong[::1],
        mixed=cython.ulonglong,
        key=cython.ulonglong,
        highest=cython.ulonglong,
        at=cython.Py_ssize_t,
        best=cython.Py_ssize_t,
    )
    def best(self, hashed: int) -> tuple[int, int]:
        """The number of the destination with the highest mixed hash, and that hash, both 64 bits.

        Args:
            hashed: 64 bits.

        Cost:
            1.5 ns for each destination.
        """
        seeds, key = self._seeds, hashed
        highest, best = 0, -1
        for at in range(len(self._seeds)):
            # The finisher of SplitMix64: seeds that differ in one bit give unrelated hashes.
            mixed = key ^ seeds[at]
            mixed = (mixed ^ (mixed >> 30)) * _FIRST & _MASK
            mixed = (mixed ^ (mixed >> 27)) * _SECOND & _MASK
            mixed = mixed ^ (mixed >> 31)
            if mixed > highest or best < 0:
                highest, best = mixed, at
        return best, highest
