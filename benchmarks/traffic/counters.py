"""Plain integers that the processes of one run share."""

import mmap
from enum import IntEnum

# Processes of each side: one copies about 1 GB/s, and more would take the broker's cores.
WORKERS_MAX = 4
_SLOTS = 2 * WORKERS_MAX


class Counter(IntEnum):
    """The place of each counter in the shared memory; those of workers have a slot for each."""

    PUBLISHED = 0
    CONFIRMED = 1
    RECEIVED = 2
    SENT_SUM = 3  # of the lowest bytes of the numbers of all messages; written at the end
    RECEIVED_SUM = 4
    READY = 5  # connections that are open, and subscribed where they consume
    GO = 6  # set by the parent: publish; its value is the monotonic time, in nanoseconds
    STOP = 7  # set by the parent: publish no more
    DONE = 8  # set by the parent: what is published by now is all there will be


class Counters:
    """Shared memory with one writer for each slot; inherited by forked processes.

    A slot is an aligned 8-byte word, read and written whole.
    """

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
        self._slots = [
            self._words[counter * _SLOTS : (counter + 1) * _SLOTS] for counter in Counter
        ]

    def __getitem__(self, counter: Counter) -> int:
        """What all slots together say."""
        return sum(self._slots[counter])

    def put(self, counter: Counter, value: int, worker: int = 0) -> None:
        """Write the slot of one worker; the parent's is 0."""
        self._words[counter * _SLOTS + worker] = value
