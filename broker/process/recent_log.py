"""The last lines of the log in memory, for operators who cannot read stderr."""

import logging
from collections import deque
from typing import Any

from routelog.broker.process.logs import described_record

LINES_MAX = 1_000
CHARACTERS_MAX = 1_000_000  # of all lines: some 2 MB of memory


class RecentLog(logging.Handler):
    """Keeps lines, from any thread.

    Invariant: numbers grow from line to line, and over restarts while the clock does not go back.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[tuple[dict[str, Any], int]] = deque()  # with their characters
        self._characters = self._last = 0

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`, which lets one thread in at a time."""
        # Milliseconds since 1970, so that a number is a time as well; one more when two lines share it.
        self._last = max(self._last + 1, int(record.created * 1_000))
        line = {**described_record(record), "number": self._last}
        characters = sum(len(str(value)) for value in line.values())
        self._lines.append((line, characters))
        self._characters += characters
        while len(self._lines) > LINES_MAX or self._characters > CHARACTERS_MAX:
            self._characters -= self._lines.popleft()[1]

    def lines(self) -> list[dict[str, Any]]:
        """The lines as the JSON form of the log has them, with a `number`; oldest first."""
        return [line for line, _ in list(self._lines)]
