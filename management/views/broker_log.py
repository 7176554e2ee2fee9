"""The broker's own log: its last lines, with what operators did among them."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

from routelog.log_backend import Lane, in_turns
from routelog.management.calls.answer import Answer, Row, Value
from routelog.management.calls.call import Call
from routelog.management.calls.failures import bad_request
from routelog.management.calls.message_wanted import moment_of, number_of
from routelog.management.calls.operation import Parameter, answers

LEVELS = ("debug", "info", "warning", "error", "critical")
COUNT = 200
COUNT_MAX = 1_000  # as many as are kept


class LogPage(msgspec.Struct):
    """Lines, oldest first, and where to go on. What a line says depends on its event."""

    items: list[dict[str, Any]]
    next: int


@answers(
    LogPage,
    query={
        "count": Parameter("at most so many", Annotated[int, msgspec.Meta(ge=1, le=COUNT_MAX)]),
        "since": Parameter(
            "after this: `next` of an answer, a time (ISO 8601), or an age such as 1h"
        ),
        "level": Parameter("at least", Literal["debug", "info", "warning", "error", "critical"]),
        "user": Parameter("who did it, or whom it is about"),
        "event": Parameter("how its event begins, such as http."),
        "via": Parameter("by which way somebody did it"),
        "text": Parameter("what the message contains"),
    },
)
async def get_log(call: Call) -> Answer:
    """The newest lines of the log that a filter finds, oldest first."""
    count = number_of(call.query, "count", COUNT, COUNT_MAX, least=1)
    after, is_found = _after(call), _filter(call)
    lines = call.broker.log_lines()
    found = [
        line
        async for line in in_turns(lines, Lane.OPERATORS)
        if line["number"] > after and is_found(line)
    ]
    return Value(LogPage(found[-count:], lines[-1]["number"] if lines else after))


def _after(call: Call) -> int:
    # A number of a line is a time in milliseconds, too.
    since = call.query.get("since", "0")
    if since.isascii() and since.isdigit() and len(since) < 16:
        return int(since)
    moment = moment_of(call.query, "since", call.broker.clock.now())
    assert moment is not None
    return moment // 1_000 - 1


def _filter(call: Call) -> Callable[[Row], bool]:
    said = call.query
    level = said.get("level", LEVELS[0])
    if level not in LEVELS:
        raise bad_request(f"level is {', '.join(LEVELS)}, not '{level}'")
    levels = LEVELS[LEVELS.index(level) :]
    user, event, via = said.get("user"), said.get("event"), said.get("via")
    text = said.get("text", "")

    def is_found(line: dict[str, Any]) -> bool:
        return (
            line["level"] in levels
            and (not user or user in (line.get("by"), line.get("user")))
            and (not event or str(line.get("event", "")).startswith(event))
            and (not via or line.get("via") == via)
            and text in line["message"]
        )

    return is_found
