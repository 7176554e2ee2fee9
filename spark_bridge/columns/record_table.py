"""The rows of a table that records are exported to."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from routelog.spark_bridge.columns.body_columns import BODY_FORMATS, BodyColumns
from routelog.spark_bridge.columns.declared_columns import DeclaredColumn, parse_declared_columns
from routelog.spark_bridge.columns.record_columns import arrow_batch
from routelog.spark_bridge.columns.row_group import RowGroup
from routelog.spark_bridge.logs.errors import BadOption

_TEXT = pa.string()
_TIME = pa.timestamp("us", tz="UTC")
PARTITION_COLUMNS = ("date", "queue")
CORRUPT = "_corrupt"

PROPERTIES = pa.struct(
    [
        ("content_type", _TEXT),
        ("content_encoding", _TEXT),
        ("delivery_mode", pa.int32()),
        ("priority", pa.int32()),
        ("correlation_id", _TEXT),
        ("reply_to", _TEXT),
        ("expiration", _TEXT),
        ("message_id", _TEXT),
        ("timestamp", _TIME),
        ("type", _TEXT),
        ("user_id", _TEXT),
        ("app_id", _TEXT),
    ]
)
HEADERS = pa.map_(_TEXT, _TEXT)
PLACE = (("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", _TIME))
ENVELOPE = (
    ("exchange", _TEXT),
    ("routing_key", _TEXT),
    ("properties", PROPERTIES),
    ("headers", HEADERS),
)


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table.

    Attributes:
        declared: additional columns.
        body_format: of the declared fields; see `BODY_FORMATS`.
        with_envelope: exchange, routing key, properties and headers are columns.
        with_body: the body is a column.
    """

    declared: tuple[DeclaredColumn, ...] = ()
    body_format: str = "json"
    with_envelope: bool = True
    with_body: bool = True

    @property
    def stored(self) -> pa.Schema:
        """The columns in the files."""
        columns: list[tuple[str, pa.DataType]] = list(PLACE)
        if self.with_envelope:
            columns += ENVELOPE
        if self.with_body:
            columns.append(("body", pa.binary()))
        columns += [(each.name, each.type) for each in self.declared]
        if any(each.is_field for each in self.declared):
            columns.append((CORRUPT, pa.binary()))
        return pa.schema(columns)

    @property
    def schema(self) -> pa.Schema:
        """All columns; those by which tables are partitioned come first."""
        return pa.schema([("date", pa.date32()), ("queue", _TEXT), *self.stored])


def parse_layout(
    columns: str | None, body_format: str, *, envelope: bool, body: bool
) -> TableLayout:
    """Return the layout that the options of a command ask for.

    Args:
        columns: see `parse_declared_columns`; None: there are no declared columns.

    Raises:
        BadOption: an option is malformed, or declares a column with a name that every table has.
    """
    if body_format not in BODY_FORMATS:
        expected = " or ".join(BODY_FORMATS)
        raise BadOption("--body-format", f"expected {expected}, not '{body_format}'")
    declared = () if columns is None else parse_declared_columns(columns)
    taken = (*TableLayout().schema.names, CORRUPT)
    for name in (column.name for column in declared):
        if name in taken:
            raise BadOption("--columns", f"every table has a column {name}: choose another name")
    return TableLayout(declared, body_format, envelope, body)


class RecordRows:
    """Converts records to rows."""

    def __init__(self, layout: TableLayout) -> None:
        self._layout = layout
        self._stored_columns = layout.stored
        declared = layout.declared
        names = set(self._stored_columns.names)
        wanted = [field for field in TableLayout().stored if field.name in names]
        extra = {
            "body": any(each.is_field for each in declared),
            "headers": any(each.header for each in declared),
            "routing_key": any(each.key_part for each in declared),
        }
        wanted += [
            TableLayout().stored.field(name)
            for name, needed in extra.items()
            if needed and name not in names
        ]
        self._wanted_schema = pa.schema(wanted)
        self._fields = [pa.field(each.name, each.type) for each in declared if each.is_field]
        self._bodies = BodyColumns(self._fields, layout.body_format) if self._fields else None

    def of(self, group: RowGroup) -> pa.RecordBatch:
        """The stored columns of a group's records.

        Raises:
            DamagedBatch: see `arrow_batch`.
        """
        read = arrow_batch(group, self._wanted_schema)
        columns = {name: read.column(name) for name in self._wanted_schema.names}
        if self._bodies is not None:
            parsed, bad = self._bodies.of(read.column("body"))
            columns |= dict(zip([field.name for field in self._fields], parsed, strict=True))
            nothing = pa.scalar(None, pa.binary())
            columns[CORRUPT] = pc.if_else(bad, read.column("body"), nothing)
        for each in self._layout.declared:
            if each.header:
                columns[each.name] = _header(read.column("headers"), each.header)
            elif each.key_part:
                columns[each.name] = _key_part(read.column("routing_key"), each.key_part)
        ordered: Sequence[pa.Array] = [columns[name] for name in self._stored_columns.names]
        return pa.RecordBatch.from_arrays(ordered, schema=self._stored_columns)


def _header(headers: pa.Array, name: str) -> pa.Array:
    return pc.map_lookup(headers, pa.scalar(name), "last")


def _key_part(keys: pa.Array, part: int) -> pa.Array:
    # Pads each key, because `list_element` fails if a list is too short; a missing part is null.
    padded = pc.binary_join_element_wise(keys, "." * part, "")
    value = pc.list_element(pc.split_pattern(padded, "."), part - 1)
    there = pc.greater_equal(pc.count_substring(keys, "."), part - 1)
    return pc.if_else(there, value, pa.scalar(None, pa.string()))
