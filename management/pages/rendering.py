"""From a template and values to HTML: every value is escaped, and long pages are made in turns of the loop."""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from routelog.log_backend import Lane, in_turns, pause
from routelog.management.calls.listing import slices

TEMPLATES = Path(__file__).parent / "templates"
SLICE_PIECES = 16  # made between two looks at the time; a row of a list has some 40


class Rendering:
    """The templates. Making it blocks for a tenth of a second: it compiles them."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "json": as_json,
            "moment": as_moment,
            "number": as_number,
            "octets": as_octets,
            "part": as_part,
            "shell": shlex.quote,
        }
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    async def html(self, template: str, values: Mapping[str, Any]) -> str:
        """Render a page as HTML."""
        await pause(Lane.OPERATORS)
        pieces = self._environment.get_template(template).generate(values)
        in_slices = in_turns(slices(pieces, SLICE_PIECES), Lane.OPERATORS)
        return "".join([piece async for slice_ in in_slices for piece in slice_])


def as_part(text: object) -> str:
    """A name as a part of a path."""
    return quote(str(text), safe="")


def as_number(number: float | None) -> str:
    """A number with its thousands apart; a dash for none."""
    return "–" if number is None else f"{number:,}"


def as_octets(size: float | None) -> str:
    """A size in bytes, or in the largest of their powers of 1,024 that is not above it."""
    if size is None:
        return "–"
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1_024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1_024
    return f"{size:,.1f} TiB"


def as_moment(seconds: float) -> str:
    """A time, from seconds since 1970."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{seconds} s after 1970"


def as_json(value: object) -> str:
    """A value as JSON for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
