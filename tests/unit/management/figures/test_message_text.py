"""Messages as people see them: text, JSON, octets, and how they died."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from routelog.management.figures.message_text import (
    JSON_BYTES_MAX,
    OCTETS_MAX,
    described_message,
)


def shown(payload: str | bytes, size: int | None = None, **headers: object) -> dict[str, Any]:
    is_text = isinstance(payload, str)
    octets = payload.encode() if isinstance(payload, str) else payload
    return described_message(
        {
            "payload": payload if is_text else b64encode(octets).decode(),
            "payload_encoding": "string" if is_text else "base64",
            "payload_bytes": len(octets) if size is None else size,
            "properties": {"priority": 1, "headers": headers} if headers else {},
        }
    )


def deaths(*tables: object) -> list[str]:
    found: list[str] = shown("", **{"x-death": [*tables]})["deaths"]
    return found


def test_text_is_shown_as_it_is() -> None:
    row = shown("a é {", size=7)
    assert (row["text"], row["octets"], row["is_json"], row["is_cut"]) == (
        "a é {",
        None,
        False,
        True,
    )
    assert not shown("a é {")["is_cut"]


def test_json_is_laid_out_and_its_numbers_stay_as_written() -> None:
    row = shown('{"a":[1.50,12345678901234567890]}')
    assert row["is_json"]
    assert "1.50" in row["text"]
    assert "12345678901234567890" in row["text"]
    assert row["text"].count("\n") > 2


@pytest.mark.parametrize("text", ['{"a":', "[" * 5_000, '"a"', "[" + " " * JSON_BYTES_MAX + "]"])
def test_what_is_no_json_or_too_long_stays_text(text: str) -> None:
    row = shown(text)
    assert (row["text"], row["is_json"]) == (text, False)


def test_octets_are_shown_in_lines_of_sixteen() -> None:
    row = shown(b"\x00A~\x7f" + b"x" * 13)
    first, second = row["octets"].split("\n")
    assert first == f"000000  00 41 7e 7f{' 78' * 12}  .A~.{'x' * 12}"
    assert second == f"000010  {'78':<47}  x"
    assert (row["text"], row["is_cut"]) == (None, False)


def test_of_many_octets_the_first_are_shown() -> None:
    row = shown(bytes(OCTETS_MAX + 1))
    assert (len(row["octets"].split("\n")), row["is_cut"]) == (OCTETS_MAX // 16, True)


def test_headers_stand_beside_the_other_properties() -> None:
    row = shown("", a=1)
    assert (row["headers"], row["properties"]) == ({"a": 1}, {"priority": 1})
    assert shown("")["headers"] == {}


def test_a_death_is_a_sentence() -> None:
    death = {"reason": "expired", "queue": "q", "count": 2, "time": 0, "exchange": "e"}
    assert deaths({**death, "routing-keys": ["a", "b"]}) == [
        "It expired in queue q, 2 times, first on 1970-01-01 00:00:00 UTC. "
        "It had come by e with the key a, b."
    ]
    assert deaths({"reason": "maxlen", "queue": "q", "count": 1}) == [
        "It was pushed out by the length limit in queue q. "
        "It had come by the default exchange with the key (empty)."
    ]


@pytest.mark.parametrize("written", ["no list", [1, "a"], None, {"a": 1}])
def test_a_header_that_a_publisher_made_up_is_no_death(written: object) -> None:
    assert shown("", **{"x-death": written})["deaths"] == []


def test_a_death_that_a_publisher_made_up_breaks_nothing() -> None:
    (told,) = deaths({"reason": ["x"], "count": "2", "time": 10**30, "routing-keys": "k"})
    assert told.startswith("It ['x'] in queue ?")
