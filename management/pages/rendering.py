"""From a template and values to HTML: every value is escaped, and long pages are made in turns of the loop."""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from routelog.log_backend import Lane, in_turns, pause
from routelog.management.calls.listing import slices
from routelog.management.figures.numbers import (
    as_ago,
    as_count,
    as_moment,
    as_number,
    as_octet_rate,
    as_octets,
    as_rate,
    as_span,
)

TEMPLATES = Path(__file__).parent / "templates"
SLICE_PIECES = 16  # made between two looks at the time; a row of a list has some 40


class Rendering:
    """The templates. Making it blocks for a tenth of a second: it compiles them.

    How a value is written is a filter: `number`, `count`, `rate`, `octets`, `octet_rate`, `span`; for times, in
    seconds since 1970, `moment`, `clock` and `ago`. Badges, and names that are cut, are macros of
    `parts/format.html`.
    """

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
            "ago": time_ago,
            "clock": time_of_day,
            "count": as_count,
            "json": as_json,
            "moment": time_exact,
            "number": as_number,
            "octet_rate": as_octet_rate,
            "octets": as_octets,
            "part": as_part,
            "rate": as_rate,
            "shell": shlex.quote,
            "span": as_span,
        }
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    async def html(self, template: str, values: Mapping[str, Any]) -> str:
        """Render a page as HTML."""
        await pause(Lane.OPERATORS)
        pieces = self._environment.get_template(template).generate(values)
        in_slices = in_turns(slices(pieces, SLICE_PIECES), Lane.OPERATORS)
        return "".join([piece async for slice_ in in_slices for piece in slice_])


def time_exact(seconds: float) -> str:
    """A time as it was, which the browser writes in its own zone."""
    return _Time(seconds, "", as_moment(seconds))


def time_of_day(seconds: float) -> str:
    """The time of the day, which the browser writes in its own zone."""
    at = datetime.fromtimestamp(seconds, UTC)
    return _Time(seconds, " data-clock", f"{at:%H:%M:%S} UTC")


@pass_context
def time_ago(context: Context, seconds: float) -> str:
    """How long ago a time was, with the exact one when the pointer is on it.

    The page's `now` is read: a macro that uses it is imported with the context.
    """
    exact = as_moment(seconds)
    return _Time(seconds, f' data-ago title="{exact}"', as_ago(context["now"] - seconds))


class _Time(str):
    """An element of a page; text where a browser could not read the time."""

    __slots__ = ()

    def __new__(cls, seconds: float, more: str, text: str) -> Self:
        try:
            iso = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
        except (OverflowError, ValueError, OSError):
            return super().__new__(cls, as_moment(seconds))
        return super().__new__(cls, f'<time datetime="{iso}"{more}>{text}</time>')

    def __html__(self) -> str:
        """It is no text to be escaped: it is made of digits and words of ours."""
        return self


def as_part(text: object) -> str:
    """A name as a part of a path."""
    return quote(str(text), safe="")


def as_json(value: object) -> str:
    """A value as JSON for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
