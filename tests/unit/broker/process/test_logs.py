"""The log's lines: whole, dated, and impossible to forge through what a peer sends."""

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from typing import Literal

import pytest

from routelog.broker.process.logs import (
    MESSAGE_CHARACTERS_MAX,
    escape_control,
    name_process,
    set_up_logs,
)

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ERROR front\.test: (.*)")
FORGERY = "bye\n2026-01-01T00:00:00.000Z INFO routelog.broker.process.broker: all is well\x1b[2J"


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    factory = logging.getLogRecordFactory()
    root.handlers.clear()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.setLogRecordFactory(factory)


def logged(form: Literal["text", "json"], message: str, *arguments: object) -> str:
    stream = io.StringIO()
    set_up_logs("info", form, stream)
    logging.getLogger("front.test").error(
        message, *arguments, exc_info=sys.exc_info()[0] is not None
    )
    return stream.getvalue()


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain, häßlich, 日本", "plain, häßlich, 日本"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\x00\x1b[31m\x7f\x85\x9b", r"\x00\x1b[31m\x7f\x85\x9b"),
        ("\u2028\u2029\u202e\u2066", r"\u2028\u2029\u202e\u2066"),
    ],
)
def test_control_characters_are_spelled_out(text: str, escaped: str) -> None:
    assert escape_control(text) == escaped


def test_a_text_event_is_one_dated_line() -> None:
    match = LINE.fullmatch(logged("text", "queue %s is gone", "q1").removesuffix("\n"))
    assert match is not None
    assert match[1] == "queue q1 is gone"


def test_lines_say_which_of_several_processes_they_are_of() -> None:
    name_process(2)
    assert " ERROR front.test[2]: on\n" in logged("text", "on")
    assert json.loads(logged("json", "on"))["process"] == 2


def test_a_json_event_is_one_object_a_line() -> None:
    event = json.loads(logged("json", "queue %s is gone", "q1"))
    assert event.pop("time").endswith("Z")
    assert event == {"level": "error", "logger": "front.test", "message": "queue q1 is gone"}


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_peers_text_cannot_start_a_line(form: Literal["text", "json"]) -> None:
    text = logged(form, "closed by the peer: %s", FORGERY)
    assert text.count("\n") == 1
    assert "\x1b" not in text


def test_lines_of_a_traceback_are_marked_as_such() -> None:
    try:
        raise ValueError(FORGERY)
    except ValueError:
        first, *others = logged("text", "failed").splitlines()
    assert LINE.fullmatch(first)
    assert len(others) >= 3
    assert all(line.startswith("  | ") for line in others)
    assert not any("\x1b" in line for line in others)


def test_a_json_traceback_stays_in_its_object() -> None:
    try:
        raise ValueError(FORGERY)
    except ValueError:
        text = logged("json", "failed")
    assert text.count("\n") == 1
    assert json.loads(text)["trace"].startswith("Traceback")


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_endless_message_is_cut(form: Literal["text", "json"]) -> None:
    text = logged(form, "x" * (MESSAGE_CHARACTERS_MAX + 5))
    assert text.count("x") == MESSAGE_CHARACTERS_MAX
    assert "(5 characters more)" in text


def test_events_below_the_level_are_left_out() -> None:
    stream = io.StringIO()
    set_up_logs("warning", "text", stream)
    logging.getLogger("front.test").info("chatter")
    assert stream.getvalue() == ""


def test_a_second_set_up_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    set_up_logs("info", "text", first)
    set_up_logs("info", "json", second)
    logging.getLogger("front.test").error("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


def test_without_a_stream_events_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("info", "text")
    logging.getLogger("front.test").error("seen")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("seen\n")
