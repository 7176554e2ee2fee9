"""A page of memory that the processes of one node share: each has a line of numbers, which it alone writes."""

import mmap
from dataclasses import dataclass

_COLUMNS = 3
_PROCESS, _READY, _CONNECTIONS = range(_COLUMNS)
_NUMBER_BYTES = 8
_PARENT = 0  # its line
_ENDING = _CONNECTIONS  # of the parent, which has none


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One of the processes of a node.

    Attributes:
        process: the system's number of it; 0: it is away.
        is_ready: it takes clients.
    """

    number: int
    process: int
    is_ready: bool
    connections: int


class SharedPage:
    """Numbers of all processes; made by their parent, before there are any.

    The processes of a node are numbered from 1; the first one has the data.

    Attributes:
        count: of the processes.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        # An aligned number of 8 bytes is read and written whole.
        size = (count + 1) * _COLUMNS * _NUMBER_BYTES
        self._numbers = memoryview(mmap.mmap(-1, size)).cast("q")

    @property
    def all(self) -> range:
        """The numbers of all processes."""
        return range(1, self.count + 1)

    def _get(self, number: int, column: int) -> int:
        return self._numbers[number * _COLUMNS + column]

    def _set(self, number: int, column: int, value: int) -> None:
        self._numbers[number * _COLUMNS + column] = value

    # -- what the parent says

    def started(self, number: int, process: int) -> None:
        """A process runs, and may have told more already."""
        self._set(number, _PROCESS, process)

    def ended(self, number: int) -> None:
        """A process has ended."""
        for column in range(_COLUMNS):
            self._set(number, column, 0)

    def all_ready(self) -> None:
        """The node has started: all processes take clients."""
        self._set(_PARENT, _READY, 1)

    def all_end(self) -> None:
        """All processes are about to be told to end."""
        self._set(_PARENT, _ENDING, 1)

    # -- what a process says of itself

    def ready(self, number: int) -> None:
        """It takes clients, and signals."""
        self._set(number, _READY, 1)

    def connected(self, number: int, connections: int) -> None:
        """It has so many connections."""
        self._set(number, _CONNECTIONS, connections)

    # -- what all may know

    def process(self, number: int) -> int:
        """The system's number of a process; 0: it is away."""
        return self._get(number, _PROCESS)

    def is_ready(self, number: int) -> bool:
        """Whether a process takes clients."""
        return self._get(number, _READY) != 0

    @property
    def has_started(self) -> bool:
        """Whether all processes have taken clients."""
        return self._get(_PARENT, _READY) != 0

    @property
    def is_ending(self) -> bool:
        """Whether all processes end."""
        return self._get(_PARENT, _ENDING) != 0

    def connections(self, number: int) -> int:
        """How many connections a process has."""
        return self._get(number, _CONNECTIONS)

    def states(self) -> list[ProcessState]:
        """All processes."""
        return [
            ProcessState(each, self.process(each), self.is_ready(each), self.connections(each))
            for each in self.all
        ]
