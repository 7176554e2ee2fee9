"""Bodies in pieces are what they are as a whole."""

import base64
import json
from typing import Any

import pytest

from routelog.management.calls.message_rows import PIECE_BYTES, message_rows, taken_row
from routelog.vhosts import TakenMessage


def message(body: bytes) -> TakenMessage:
    return TakenMessage("e", "k", False, {"priority": 1}, memoryview(body), 3)


async def shown(*bodies: bytes, as_text: bool = True, bytes_max: int | None = None) -> Any:
    messages = [message(body) for body in bodies]
    rows = [(taken_row(each), each.body) for each in messages]
    pieces = message_rows(rows, as_text=as_text, bytes_max=bytes_max)
    return json.loads(b"".join([piece async for piece in pieces]))


async def test_what_there_is_to_say_of_a_message() -> None:
    assert await shown(b"abc", bytes_max=2) == [
        {
            "payload_bytes": 3,
            "redelivered": False,
            "exchange": "e",
            "routing_key": "k",
            "message_count": 3,
            "properties": {"priority": 1},
            "payload_encoding": "string",
            "payload": "ab",
        }
    ]
    assert await shown() == []


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 200_000])
async def test_text_and_octets_of_every_size(size: int) -> None:
    for text in ("x" * size, 'é"\\\n' * (size // 5), "a" + "\N{GRINNING FACE}" * (size // 4)):
        body = text.encode()
        (as_text,) = await shown(body)
        assert (as_text["payload_encoding"], as_text["payload"]) == ("string", text)
        (as_octets,) = await shown(body, as_text=False)
        assert as_octets["payload_encoding"] == "base64"
        assert base64.b64decode(as_octets["payload"], validate=True) == body


@pytest.mark.parametrize("wrong", [b"\xff", "é".encode()[:1]])
@pytest.mark.parametrize("at", [0, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES + 7])
async def test_what_is_no_text_anywhere_is_base64(wrong: bytes, at: int) -> None:
    body = b"x" * at + wrong + b"x" * 5
    for given, bytes_max in ((body, None), (body, at + 1)):
        (row, following) = await shown(given, b"text", bytes_max=bytes_max)
        assert row["payload_encoding"] == "base64"
        assert base64.b64decode(row["payload"], validate=True) == body[:bytes_max]
        assert following["payload"] == "text"[:bytes_max]
