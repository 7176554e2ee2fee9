"""Scan of a log, after a crash or the loss of the schedule: it enters the messages in the schedule."""

from collections.abc import Callable

from routelog.log_backend import CallLater, Lane, RecordBatch, ScheduledRecord, Scheduler
from routelog.vhosts.delays.held_messages import HeldMessages
from routelog.vhosts.delays.message_delay import message_delay

SCANNED_MAX = 128  # messages of one step: about 1 ms when all their headers differ
RETRY_SECONDS = 60.0  # until a part behind damage, or a failed read, is scanned again


class HeldScan:
    """Scans one part of the held messages, from where the schedule ends.

    Args:
        done: called when all messages are entered.
    """

    def __init__(
        self,
        held: HeldMessages,
        part: int,
        scheduler: Scheduler,
        call_later: CallLater,
        done: Callable[[], None],
    ) -> None:
        self._held_messages = held
        self._part = part
        self._log = held.logs[part]
        self._scheduler = scheduler
        self._call_later = call_later
        self._on_done = done
        self._at = max(held.schedule.ends[part], self._log.open_cursor().low_water)

    def run(self) -> None:
        """Scan some in this turn, and the rest in others."""
        if self._scan_some():
            self._scheduler.call(Lane.UPKEEP, self._scan_some)

    def _scan_some(self) -> bool:
        # Returns whether there is more; else it is over, or waits for the disk.
        left = SCANNED_MAX
        log = self._log
        while not log.closed:
            # Of those that are settled nothing may be left, also at the end of the log.
            self._at = log.open_cursor().settled.unsettled_from(self._at)
            if self._at >= log.ready_end:
                break
            if left <= 0:
                return True
            batch = log.read(self._at)
            if batch is None:
                self._await()
                return False
            end = min(batch.end_offset, max(self._at, batch.base_offset) + left)
            left -= self._enter(batch, max(self._at, batch.base_offset), end)
            self._at = end
        if not log.closed:
            self._held_messages.scanned[self._part] = True
            self._on_done()
        return False

    def _await(self) -> None:
        if self._log.needs_load(self._at):
            self._log.load(self._at, self.run)
        else:
            self._call_later(RETRY_SECONDS, self._read_again)

    def _read_again(self) -> None:
        self._log.read_again()
        self.run()

    def _enter(self, batch: RecordBatch, first: int, end: int) -> int:
        settled = self._log.open_cursor().settled
        known: dict[bytes, int] = {}
        entries = []
        for offset in range(first, end):
            if offset in settled:
                continue
            properties = batch.records.properties(offset - batch.base_offset)
            delay = known.get(properties)
            if delay is None:
                delay = known[properties] = message_delay(properties)
            entries.append(ScheduledRecord(batch.records.last_time + delay, self._part, offset))
        self._held_messages.schedule.add(entries, self._part, end)
        return end - first
