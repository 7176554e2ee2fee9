"""What happens is told in lines that name who did it, cannot be forged, and do not flood."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from routelog.broker.process.event_log import LINES_MAX, REFUSALS_MAX, WINDOW_SECONDS, EventLog
from routelog.broker.process.logs import set_up_logs
from routelog.vhosts import Actor, acts


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


class Timers:
    """The timers of a loop that a test lets go off."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []

    def call_later(self, seconds: float, call: Callable[..., None], *arguments: Any) -> Any:
        self.waiting.append((seconds, call, arguments))
        return self

    def cancel(self) -> None:
        """See `Timer`."""

    def go_off(self) -> None:
        waiting, self.waiting = self.waiting, []
        for _, call, arguments in waiting:
            call(*arguments)


class Told:
    """An event log, and what it wrote."""

    def __init__(self, form: Literal["text", "json"], level: Literal["debug", "info"]) -> None:
        self._stream = io.StringIO()
        set_up_logs(level, form, self._stream)
        self.timers = Timers()
        self.events = EventLog(self.timers.call_later)

    def lines(self) -> list[str]:
        return self._stream.getvalue().splitlines()


def told(form: Literal["text", "json"] = "text", level: Literal["debug", "info"] = "info") -> Told:
    return Told(form, level)


QUEUE = {"name": "orders", "vhost": "/", "durable": True, "exclusive": False, "arguments": {"a": 1}}
ANN = Actor("ann", "10.0.0.7:41234", "AMQP 0-9-1")


def test_a_line_says_what_and_who() -> None:
    log = told()
    with acts(ANN):
        log.events.write("queue.deleted", QUEUE)
    (line,) = log.lines()
    assert line.endswith(
        "INFO routelog.broker.process.event_log: queue deleted: name='orders' vhost='/' durable=True"
        " by='ann' from='10.0.0.7:41234' via='AMQP 0-9-1'"
    )


def test_json_has_the_fields_as_keys() -> None:
    log = told("json")
    with acts(ANN):
        log.events.write("queue.deleted", {**QUEUE, "level": "forged", "time": "forged"})
    event = json.loads(log.lines()[0])
    assert event.pop("time").endswith("Z")
    assert event.pop("message").startswith("queue deleted: ")
    assert event == {
        "level": "info",
        "logger": "routelog.broker.process.event_log",
        "event": "queue.deleted",
        "name": "orders",
        "vhost": "/",
        "durable": True,
        "by": "ann",
        "from": "10.0.0.7:41234",
        "via": "AMQP 0-9-1",
    }


def test_no_name_forges_a_line_or_a_field() -> None:
    log = told()
    name = "x' by='admin'\n2026-01-01T00:00:00.000Z INFO broker: all is well\x1b[2J"
    log.events.write("queue.deleted", {**QUEUE, "name": name, "vhost": "\u202e" + "v" * 10_000})
    (line,) = log.lines()
    assert repr(name) in line
    assert "\x1b" not in line
    assert "\u202e" not in line
    assert len(line) < 2_000
    assert "characters more" in line


def test_what_passes_with_its_client_is_for_debugging() -> None:
    for more in ({"exclusive": True}, {"auto_delete": True}, {"durable": False}):
        quiet = told()
        quiet.events.write("queue.created", QUEUE | more)
        assert quiet.lines() == []
        chatty = told(level="debug")
        chatty.events.write("queue.created", QUEUE | more)
        assert len(chatty.lines()) == 1


def test_an_import_is_told_as_a_whole() -> None:
    log = told()
    actor = Actor("ann", "", "HTTP", importing=True)
    with acts(actor):
        log.events.write("queue.created", QUEUE)
        assert not actor.told
        actor.importing = False
        log.events.write("definitions.imported", {"queues": 1})
    assert actor.told
    (line,) = log.lines()
    assert "definitions imported: queues=1 by='ann' via='HTTP'" in line


def refusal(user: str) -> dict[str, object]:
    return {"connection": "c", "channel": 1, "user": user, "code": 406, "reason": "r"}


def test_a_flood_of_one_user_is_counted_and_hides_nobody_else() -> None:
    log = told()
    for _ in range(REFUSALS_MAX + 1_000):
        log.events.write("channel.refused", refusal("bad"))
    log.events.write("channel.refused", refusal("good"))
    assert len(log.lines()) == REFUSALS_MAX + 1
    assert "user='good'" in log.lines()[-1]
    assert {seconds for seconds, _, _ in log.timers.waiting} == {WINDOW_SECONDS}
    log.timers.go_off()
    assert log.lines()[-1].endswith(
        "channel closed with an error, and more like it: left_out=1000 user='bad'"
    )
    assert len(log.lines()) == REFUSALS_MAX + 2
    log.events.write("channel.refused", refusal("bad"))
    assert "user='bad'" in log.lines()[-1]


def test_strangers_share_one_window_whatever_they_call_themselves() -> None:
    log = told()
    for number in range(1_000):
        name = f"user-{number}"
        fields = {"name": name, "address": f"10.0.0.{number % 250}:1", "cause": "no such user"}
        log.events.write("user.authentication.failure", fields)
    assert len(log.lines()) == REFUSALS_MAX
    assert len(log.timers.waiting) == 1
    log.events.stop()
    assert log.lines()[-1].endswith(f"left_out={1_000 - REFUSALS_MAX}")


def test_a_deployment_is_told_one_by_one() -> None:
    log = told()
    with acts(ANN):
        for number in range(LINES_MAX):
            log.events.write("queue.created", {**QUEUE, "name": f"q-{number}"})
    assert len(log.lines()) == LINES_MAX
