"""Parses the declared columns of a queue, which come from bodies, headers or routing keys.

    id long, customer string, lines array<struct<sku: string, count: int>>,
    tenant string from header x-tenant, region string from key 2

A column without a source is a field of the body. The parts of a routing key are separated by dots, and numbered
from 1.
"""

import re
from dataclasses import dataclass

import pyarrow as pa

from routelog.spark_bridge.logs.errors import BadOption

_TYPES = {
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_TOKEN = re.compile(r"\s*(?:(`[^`]+`|[\w.\-]+)|([<>,:]))")
OPTION = "--columns"
KEY_PART_MAX = 64
DEPTH_MAX = 16


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """One column.

    Attributes:
        header: name of its header; empty: it is not from a header.
        key_part: number of its part of the routing key, from 1; 0: it is not from the key.
    """

    name: str
    type: pa.DataType
    header: str = ""
    key_part: int = 0

    @property
    def is_field(self) -> bool:
        """Whether the column is a field of the body."""
        return not self.header and not self.key_part


def parse_declared_columns(text: str) -> tuple[DeclaredColumn, ...]:
    """Read a declaration.

    Raises:
        BadOption: it is malformed; the text says where.
    """
    parser = _Parser(text)
    columns = [parser.column()]
    while parser.taken(","):
        columns.append(parser.column())
    parser.end()
    names = [column.name for column in columns]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BadOption(OPTION, f"column {min(twice)} is declared twice")
    return tuple(columns)


class _Parser:
    """A recursive descent parser; tokens are words and one-character signs."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise BadOption(OPTION, f"cannot be read from here on: {text[at:].strip()[:40]!r}")
            self._tokens.append(match[1] or match[2])
            at = match.end()
        self._at = 0

    def column(self) -> DeclaredColumn:
        """`name type [from header H | from key N]`."""
        name = self.word("a column's name")
        found = self.type(0)
        if not self.taken("from"):
            return DeclaredColumn(name, found)
        source = self.word("header or key")
        if source == "header":
            self._must_be_text(name, found)
            return DeclaredColumn(name, found, header=self.word("a header's name"))
        if source != "key":
            raise BadOption(OPTION, f"column {name}: expected from header or key, not {source}")
        self._must_be_text(name, found)
        part = self.word("a number")
        if not part.isdecimal() or not 0 < int(part) <= KEY_PART_MAX:
            raise BadOption(
                OPTION, f"column {name}: expected a part from 1 to {KEY_PART_MAX}, not {part}"
            )
        return DeclaredColumn(name, found, key_part=int(part))

    def type(self, depth: int) -> pa.DataType:
        """`string`, `array<type>` or `struct<name: type, ...>`."""
        word = self.word("a type").lower()
        if depth > DEPTH_MAX:
            raise BadOption(OPTION, f"types are nested more than {DEPTH_MAX} deep")
        if word == "array":
            self.sign("<")
            inner = self.type(depth + 1)
            self.sign(">")
            return pa.list_(inner)
        if word == "struct":
            self.sign("<")
            fields = [self.field(depth)]
            while self.taken(","):
                fields.append(self.field(depth))
            self.sign(">")
            return pa.struct(fields)
        if word not in _TYPES:
            known = ", ".join(sorted(_TYPES))
            raise BadOption(OPTION, f"no type {word}; there are {known}, array<>, struct<>")
        return _TYPES[word]

    def field(self, depth: int) -> pa.Field:
        """Parse `name: type`."""
        name = self.word("a field's name")
        self.taken(":")
        return pa.field(name, self.type(depth + 1))

    def word(self, wanted: str) -> str:
        """Take the next token, which must be a word."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        if not token or token in "<>,:":
            raise BadOption(OPTION, f"expected {wanted}, not {token or 'the end'}")
        self._at += 1
        return token.strip("`")

    def sign(self, sign: str) -> None:
        """Take the next token, which must be this sign."""
        if not self.taken(sign):
            token = self._tokens[self._at] if self._at < len(self._tokens) else "the end"
            raise BadOption(OPTION, f"expected {sign}, not {token}")

    def taken(self, token: str) -> bool:
        """Take the next token if it is this one; returns whether it is."""
        if self._at < len(self._tokens) and self._tokens[self._at] == token:
            self._at += 1
            return True
        return False

    def end(self) -> None:
        """Check that there are no more tokens."""
        if self._at < len(self._tokens):
            raise BadOption(OPTION, f"expected a comma, not {self._tokens[self._at]}")

    def _must_be_text(self, name: str, found: pa.DataType) -> None:
        if found != pa.string():
            raise BadOption(OPTION, f"column {name}: of a header or key it is a string")
