"""Which calls of a disk fail, and which have to wait."""

from __future__ import annotations

import errno
import threading
from collections import Counter
from fnmatch import fnmatch

STALL_SECONDS_MAX = 60.0  # a stalled call that nobody releases: the test has failed anyway


class FaultPlan:
    """Nothing fails until it is told to.

    Attributes:
        counts: calls so far, by kind: create, open, read, write, sync, rename and so on.
        fired: names of the files whose calls failed.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.fired: list[str] = []
        self._faults: dict[tuple[str, int], int] = {}
        self._next: list[tuple[str, str, int]] = []
        self._stalled: dict[str, threading.Event] = {}

    def fail(self, kind: str, number: int, error_number: int) -> None:
        """The call of this kind with this number, counted from 1 for all of the disk's life, fails."""
        self._faults[kind, number] = error_number

    def fail_next(self, kind: str, names: str, error_number: int = errno.EIO) -> None:
        """The next call of this kind on a file of such a name fails."""
        self._next.append((kind, names, error_number))

    def repair(self) -> None:
        """Nothing fails or waits any more."""
        self._faults.clear()
        self._next.clear()
        self.resume()

    def stall(self, kind: str) -> None:
        """Calls of this kind wait until `resume`."""
        self._stalled[kind] = threading.Event()

    def resume(self) -> None:
        """Let go on what stalls."""
        for event in self._stalled.values():
            event.set()
        self._stalled.clear()

    def wait(self, kind: str) -> None:
        """Called before a call, outside of the disk's lock."""
        event = self._stalled.get(kind)
        if event is not None:
            event.wait(STALL_SECONDS_MAX)

    def pass_or_fail(self, kind: str, name: str) -> None:
        """Count a call, and raise what it shall fail with."""
        self.counts[kind] += 1
        number = self._faults.pop((kind, self.counts[kind]), None)
        for fault in self._next:
            if fault[0] == kind and fnmatch(name, fault[1]):
                self._next.remove(fault)
                number = fault[2]
                break
        if number is not None:
            self.fired.append(f"{kind} {name}")
            raise OSError(number, f"{kind} made to fail", name)
