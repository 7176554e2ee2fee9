"""Log lines about connections that were not introduced: whoever reaches the port must not fill the disk."""

import asyncio
import logging

log = logging.getLogger(__name__)

# As refusals of the other doors: at most 20 MB a day.
LINES_MAX, WINDOW_SECONDS = 60, 60.0
CHARACTERS_MAX = 512  # of a line: most of it may be what the other end has sent


class StrangerLog:
    """See the module: of a window's further lines only the number is written."""

    def __init__(self) -> None:
        self._lines = self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, level: int, text: str) -> None:
        """Write a line, unless there were too many."""
        if not log.isEnabledFor(level):
            return
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WINDOW_SECONDS, self.end_window)
        if self._lines >= LINES_MAX:
            self._left_out += 1
            return
        self._lines += 1
        more = len(text) - CHARACTERS_MAX
        shown = text if more <= 0 else f"{text[:CHARACTERS_MAX]}… ({more} characters more)"
        log.log(level, "%s", shown)

    def end_window(self) -> None:
        """Write the number of the lines left out, and begin another window."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._left_out:
            log.warning("%d more lines like these, of who was not introduced", self._left_out)
        self._lines = self._left_out = 0
