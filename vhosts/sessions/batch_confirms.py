"""From positions of the journal to the CONFIRMs of a session's batches, at most one for a turn of the loop.

add, add, ... ─► entries: number, position ─► journal reaches it ─► CONFIRM written, durable
"""

from collections import deque
from collections.abc import Callable

from routelog.log_backend import Progress, Receipt


class _Entry:
    # Neighbouring batches that wait for the same; `number` is of the last one. `takes_less`: for some of them
    # it is enough that those before are written, and so they are told early.
    __slots__ = ("number", "on_disk", "position", "takes_less")

    def __init__(self, number: int, position: int, on_disk: bool) -> None:
        self.number = number
        self.position = position
        self.on_disk = on_disk
        self.takes_less = not on_disk


class _Wait:
    # A waiter for one position; BatchConfirms has one that waits for what is written, and one for the disk.
    __slots__ = ("_batches", "receipt")

    def __init__(self, batches: "BatchConfirms") -> None:
        self._batches = batches
        self.receipt: Receipt | None = None  # what it waits for

    def journal_reached(self) -> None:
        self.receipt = None
        self._batches.look()

    def journal_late(self) -> None:
        # It may come yet, and the front has a patience of its own.
        receipt = self.receipt
        if receipt is not None and receipt.progress is not None:
            receipt.progress.wait(self, receipt)

    def journal_failed(self) -> None:
        self._batches.fail()


class BatchConfirms:
    """Which batches of a session are what their queues promise.

    Attributes:
        written, durable: what the last CONFIRM said: numbers of batches.

    Args:
        progress: of the journal that all positions are of.
        confirm: sends a CONFIRM.
        failed: called when the journal comes no further.
    """

    def __init__(
        self,
        progress: Progress,
        confirm: Callable[[int, int], None],
        failed: Callable[[], None],
    ) -> None:
        self.written = self.durable = 0
        self._progress = progress
        self._confirm = confirm
        self._failed = failed
        # Positions rise; of one position there are at most two entries, and what takes the disk is the second.
        self._entries: deque[_Entry] = deque()
        self._for_written, self._for_durable = _Wait(self), _Wait(self)
        self._is_closed = False

    def add(self, number: int, position: int, on_disk: bool) -> None:
        """The next batch was carried out.

        Args:
            position: of the journal, which its queue's promise waits for; 0: for nothing.
            on_disk: its queue promises the disk, else less.
        """
        entries = self._entries
        last = entries[-1] if entries else None
        if last is None or position > last.position or (position and on_disk > last.on_disk):
            entries.append(_Entry(number, position, on_disk))
            self._wait()
        else:
            last.number = number  # when its turn comes, it is what it promises
            if not on_disk:
                last.takes_less = True
                self._wait()

    def close(self) -> None:
        """Confirm nothing more."""
        self._is_closed = True
        self._entries.clear()

    def _wait(self) -> None:
        entries = self._entries
        if not entries:
            return
        first = entries[0]
        if first.on_disk:
            self._wait_with(self._for_durable, 0, first.position)
        else:
            self._wait_with(self._for_written, first.position, 0)
        for entry in entries:
            if entry.takes_less and entry.number > self.written:
                self._wait_with(self._for_written, entry.position, 0)
                break

    def _wait_with(self, waiter: _Wait, written: int, durable: int) -> None:
        if waiter.receipt is None:
            waiter.receipt = self._progress.receipt(written, durable)
            self._progress.wait(waiter, waiter.receipt)

    def look(self) -> None:
        """The journal has come further, or a batch waits for nothing."""
        if self._is_closed:
            return
        progress, entries = self._progress, self._entries
        written, durable = self.written, self.durable
        while entries:
            first = entries[0]
            if first.position > (progress.durable if first.on_disk else progress.written):
                break
            durable = first.number
            entries.popleft()
        written = max(written, durable)
        for entry in entries:
            if entry.position > progress.written:
                break
            written = entry.number
        if written > self.written or durable > self.durable:
            self.written, self.durable = written, durable
            self._confirm(written, durable)
        self._wait()

    def fail(self) -> None:
        """The journal comes no further."""
        if not self._is_closed:
            self._failed()
