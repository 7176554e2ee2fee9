"""Messages for people: the body as text, JSON or octets, headers, and how a dead letter died."""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from routelog.management.calls.answer import Row
from routelog.management.figures.numbers import as_moment

JSON_BYTES_MAX = 65_536  # that are laid out anew: 1 ms
OCTETS_MAX = 4_096  # shown as octets: 256 lines
OCTETS_OF_LINE = 16
PREVIEW_MAX = 240  # characters: more than a line has room for

_REASONS = {
    "rejected": "was rejected",
    "expired": "expired",
    "maxlen": "was pushed out by the length limit",
    "delivery_limit": "was delivered too often",
}


def described_message(row: Mapping[str, Any]) -> Row:
    """A message as the API shows it, and in addition:

    `text` or `octets`, one of them None; `is_json`, and `is_cut`; `deaths`, a sentence for each; `preview`, the
    beginning of the body in one line.
    """
    properties = dict(row["properties"])
    headers = properties.pop("headers", {})
    text, octets = row["payload"], None
    if row["payload_encoding"] == "base64":
        octets, text = b64decode(text), None
    size = len(octets) if octets is not None else len(text.encode())
    laid_out = None if text is None or len(text) > JSON_BYTES_MAX else _laid_out(text)
    return {
        **row,
        "properties": properties,
        "headers": headers,
        "text": text if laid_out is None else laid_out,
        "preview": _preview(text, octets),
        "is_json": laid_out is not None,
        "octets": None if octets is None else "\n".join(_octet_lines(octets[:OCTETS_MAX])),
        "is_cut": size < row["payload_bytes"] or (octets is not None and size > OCTETS_MAX),
        "deaths": [_death(each) for each in _tables(headers.get("x-death"))],
    }


def _preview(text: str | None, octets: bytes | None) -> str:
    if text is not None:
        return " ".join(text[:PREVIEW_MAX].split())
    return (octets or b"")[:OCTETS_OF_LINE].hex(" ")


def _laid_out(text: str) -> str | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    # As text: decoding would round what its numbers say.
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return None


def _octet_lines(octets: bytes) -> Iterator[str]:
    for at in range(0, len(octets), OCTETS_OF_LINE):
        line = octets[at : at + OCTETS_OF_LINE]
        shown = "".join(chr(each) if 0x20 <= each < 0x7F else "." for each in line)
        yield f"{at:06x}  {line.hex(' '):<47}  {shown}"


def _tables(value: object) -> list[Mapping[str, Any]]:
    # A publisher may have written the header.
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _death(death: Mapping[str, Any]) -> str:
    count, time = death.get("count"), death.get("time")
    reason = str(death.get("reason", "died"))
    told = f"It {_REASONS.get(reason, reason)} in queue {death.get('queue', '?')}"
    if isinstance(count, int) and count > 1:
        told += f", {count} times"
    if isinstance(time, int):
        told += f", first on {as_moment(time)}"
    keys = death.get("routing-keys")
    key = ", ".join(map(str, keys)) if isinstance(keys, list) else ""
    exchange = death.get("exchange") or "the default exchange"
    return f"{told}. It had come by {exchange} with the key {key or '(empty)'}."
