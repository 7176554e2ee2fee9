"""Plain integers that the processes of one run share."""

import mmap
from enum import IntEnum


class Counter(IntEnum):
    """The place of each counter in the shared memory."""

    PUBLISHED = 0
    CONFIRMED = 1
    RECEIVED = 2
    READY = 3  # 1 when the consumer's subscription stands
    STOP = 4  # set by the parent when the window is over
    FINAL = 5  # messages of the whole run; written before the last one is sent


class Counters:
    """Shared memory with one writer for each counter; inherited by forked processes.

    A counter is an aligned 8-byte word, read and written whole.
    """

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")

    def __getitem__(self, counter: Counter) -> int:
        return self._words[counter]

    def __setitem__(self, counter: Counter, value: int) -> None:
        self._words[counter] = value
