"""Columns of a list: what of a row stands in them, and how it is written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

How = Literal[
    "text",
    "mono",
    "name",
    "badges",
    "state",
    "yes",
    "count",
    "of",
    "rate",
    "octets",
    "octets of",
    "octet rate",
    "span",
    "ago",
    "pairs",
    "link",
]
NUMBERS = frozenset(("count", "of", "rate", "octets", "octets of", "octet rate", "span"))


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        key: of the API's row; `a.b` is b in a.
        how: it is written. Spans and times are in milliseconds; `of` and `octets of` name a limit in `other`.
        other: another key of the row; of a link, the path with keys of the row in it.
    """

    key: str
    label: str
    how: How = "text"
    other: str = ""

    @property
    def is_number(self) -> bool:
        """Whether it stands on the right."""
        return self.how in NUMBERS


def value_at(row: Mapping[str, Any], key: str) -> Any:
    """What a row says at a key; None: nothing."""
    value: Any = row
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
