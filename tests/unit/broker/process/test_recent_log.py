"""The last lines of the log in memory: numbered, with their fields, and not without a limit."""

import logging

from routelog.broker.process.logs import CHARACTERS_MAX, LINES_MAX, RecentLog, event_extra


def logged(log: RecentLog, message: str, created: float, **fields: object) -> None:
    record = logging.LogRecord("a.logger", logging.WARNING, "", 0, message, None, None)
    record.created = created
    record.__dict__.update(event_extra("queue.deleted", fields) if fields else {})
    log.handle(record)


def test_a_line_has_its_fields_and_a_number_that_is_a_time() -> None:
    log = RecentLog()
    logged(log, "queue deleted", 1.5, by="ann", name="q", number=7, time="never")
    assert log.lines() == [
        {
            "time": "1970-01-01T00:00:01.500Z",
            "level": "warning",
            "logger": "a.logger",
            "message": "queue deleted",
            "event": "queue.deleted",
            "by": "ann",
            "name": "q",
            "number": 1_500,
        }
    ]


def test_numbers_grow_whatever_the_clock_says() -> None:
    log = RecentLog()
    for created in (5.0, 5.0, 4.0, 6.0):
        logged(log, "x", created)
    assert [line["number"] for line in log.lines()] == [5_000, 5_001, 5_002, 6_000]


def test_the_oldest_lines_go_when_there_are_too_many() -> None:
    log = RecentLog()
    for number in range(LINES_MAX + 3):
        logged(log, str(number), 1.0)
    assert [line["message"] for line in log.lines()][:: LINES_MAX - 1] == ["3", str(LINES_MAX + 2)]


def test_the_oldest_lines_go_when_they_are_too_long() -> None:
    log = RecentLog()
    size = CHARACTERS_MAX // 200
    for _ in range(300):
        logged(log, "x" * min(size, 8_000), 1.0)
    kept = sum(len(line["message"]) for line in log.lines())
    assert CHARACTERS_MAX * 0.9 < kept <= CHARACTERS_MAX
