"""Stored messages with keys, headers and properties."""

from __future__ import annotations

from array import array
from typing import Any

from pamqp.commands import Basic

from routelog.log_backend import PERSISTENT, Records, encode_records


def message(
    key: str = "k", headers: dict[str, Any] | None = None, body: bytes = b"", **properties: Any
) -> tuple[bytes, bytes, bytes]:
    """The key, the property list as on the wire, and the body of a message."""
    return key.encode(), Basic.Properties(headers=headers, **properties).marshal(), body


def batch(
    *messages: tuple[bytes, bytes, bytes], exchange: bytes = b"events", persistent: bool = True
) -> Records:
    """A batch of some messages, with a column of their keys."""
    rows, source = array("i"), bytearray()
    for parts in messages:
        for part in parts:
            rows.extend((len(source), len(part)))
            source += part
    view, count = memoryview(source), len(messages)
    records: Records = encode_records(
        view, memoryview(rows), None, count, exchange, None, PERSISTENT if persistent else 0, 0
    )
    return records
