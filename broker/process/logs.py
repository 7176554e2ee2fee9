"""The process's log: one line an event on stderr, in text or JSON, that no peer can forge."""

import json
import logging
import sys
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

# A peer chooses parts of what is logged (names, reasons): one event may not flood the log.
MESSAGE_CHARACTERS_MAX = 8192

# What moves the cursor, colours the terminal, breaks the line, or turns the reading direction.
_UNSAFE_CODE_POINTS = (
    *range(0x20),
    *range(0x7F, 0xA0),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
_ESCAPES = {point: ascii(chr(point))[1:-1] for point in _UNSAFE_CODE_POINTS}

LINES_MAX = 1_000
CHARACTERS_MAX = 1_000_000  # of all lines: some 2 MB of memory


def escape_control(text: str) -> str:
    """The text with control characters spelled out: a line feed becomes `\\n`."""
    return text.translate(_ESCAPES)


def set_up_logs(
    level: Literal["debug", "info", "warning", "error"],
    form: Literal["text", "json"],
    stream: TextIO | None = None,
) -> None:
    """Send every logger's events to one stream; what was set up before is replaced.

    Args:
        stream: stderr when not given.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def name_process(number: int) -> None:
    """Let each line say from now on which of several processes of a node it is of."""
    made = logging.getLogRecordFactory()

    def numbered(*arguments: Any, **more: Any) -> logging.LogRecord:
        record = made(*arguments, **more)
        record.number = number
        return record

    logging.setLogRecordFactory(numbered)


def event_extra(event: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `extra` of a line that has fields: keys of their own in the JSON form."""
    return {"event": event, "fields": fields}


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO routelog.broker.process.broker: text`, then a marked traceback if any.

    The number of one of several processes is behind the name: `…broker[2]: text`.

    Guarantees:
        A line that starts with a time is an event of this process: traceback lines are marked
        with `  | `, and a message is one line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The event as text, without the closing line feed."""
        number = getattr(record, "number", None)
        whose = "" if number is None else f"[{number}]"
        head = f"{_time_of(record)} {record.levelname} {record.name}{whose}: "
        lines = [head + escape_control(_message_of(record))]
        lines += (f"  | {escape_control(line)}" for line in _trace_of(record).splitlines())
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, and `trace` after an error.

    Of one of several processes also `process`, its number.
    Of an event also `event`, which names it, and its fields.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The event as JSON, in ASCII, without the closing line feed."""
        return json.dumps(described_record(record))


def described_record(record: logging.LogRecord) -> dict[str, Any]:
    """A line by its keys: see `JsonFormatter`."""
    event: dict[str, Any] = {
        "time": _time_of(record),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": _message_of(record),
    }
    number: int | None = getattr(record, "number", None)
    if number is not None:
        event["process"] = number
    name: str | None = getattr(record, "event", None)
    if name is not None:
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        event = {**fields, **event, "event": name}
    trace = _trace_of(record)
    if trace:
        event["trace"] = trace
    return event


def _time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message_of(record: logging.LogRecord) -> str:
    message = record.getMessage()
    excess = len(message) - MESSAGE_CHARACTERS_MAX
    if excess <= 0:
        return message
    return f"{message[:MESSAGE_CHARACTERS_MAX]}… ({excess} characters more)"


def _trace_of(record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(logging.Formatter().formatException(record.exc_info))
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)


class RecentLog(logging.Handler):
    """The last lines of the log in memory, for operators who cannot read stderr; from any thread.

    Invariant: numbers grow from line to line, and over restarts while the clock does not go back.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[tuple[dict[str, Any], int]] = deque()  # with their characters
        self._characters = self._last = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line; `logging.Handler` lets one thread in at a time."""
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
