"""Parses bodies (JSON, MessagePack, Avro) to typed columns; bodies that do not fit are no error."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

BODY_FORMATS = ("json", "msgpack", "avro")
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_BEGIN, _END = r"\A\s*\{", r"\}\s*\z"

_Decode = Callable[[bytes], Any]


class BodyColumns:
    """Parses the bodies of many records at once.

    Args:
        fields: the columns; other fields of a body are ignored.
        body_format: one of `BODY_FORMATS`.
    """

    def __init__(self, fields: Sequence[pa.Field], body_format: str) -> None:
        self._schema = pa.schema(fields)
        self._struct = pa.struct(fields)
        self._json_schemas = _json_schemas(self._schema)
        self._parse = self._parsed_json if body_format == "json" else self._decoded
        self._decode: _Decode = _avro if body_format == "avro" else msgspec.msgpack.decode

    def of(self, bodies: pa.Array) -> tuple[list[pa.Array], pa.Array]:
        """Return the columns, with nulls for bodies that do not fit, and the mask of these bodies.

        Args:
            bodies: binary, without nulls.
        """
        pieces: list[pa.StructArray] = []
        self._collect(bodies, pieces)
        whole = pa.concat_arrays(pieces) if pieces else pa.array([], self._struct)
        return whole.flatten(), whole.is_null()

    def _collect(self, bodies: pa.Array, pieces: list[pa.StructArray]) -> None:
        """Parse bodies; if that fails, parse each half, down to the body at fault."""
        found = self._parse(bodies) if len(bodies) else pa.array([], self._struct)
        if found is not None:
            pieces.append(found)
        elif len(bodies) == 1:
            pieces.append(pa.nulls(1, self._struct))
        else:
            half = len(bodies) // 2
            self._collect(bodies.slice(0, half), pieces)
            self._collect(bodies.slice(half), pieces)

    def _parsed_json(self, bodies: pa.Array) -> pa.StructArray | None:
        """Structs of the bodies; None if a body is no object that fits.

        The parser reads documents from one text, in which bodies are separated by line breaks; it must find one
        document in each body. Each body begins with an opening and ends with a closing brace. A JSON string
        cannot contain a line break, and within a document no opening brace follows a closing one directly. So
        no document crosses the end of a body.
        """
        if not _are_objects(bodies):
            return None
        lines = pc.binary_join_element_wise(bodies, b"", b"\n")
        for schema in self._json_schemas:
            table = self._parsed_lines(lines, schema)
            if table is not None:
                whole = table.num_rows == len(bodies)
                return table.to_struct_array().combine_chunks() if whole else None
        return None

    def _parsed_lines(self, lines: pa.Array, schema: pa.Schema) -> pa.Table | None:
        text = lines.buffers()[2]
        offsets = memoryview(lines.buffers()[1]).cast("i")
        start, end = offsets[lines.offset], offsets[lines.offset + len(lines)]
        try:
            table = pj.read_json(
                pa.BufferReader(text.slice(start, end - start)),
                pj.ReadOptions(use_threads=False, block_size=end - start + 1),
                pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
            table.validate(full=True)  # the parser takes texts that are not UTF-8
            return table.cast(self._schema, safe=False)
        except pa.ArrowInvalid:
            return None

    def _decoded(self, bodies: pa.Array) -> pa.StructArray | None:
        values = []
        for body in bodies.to_pylist():
            try:
                value = self._decode(body)
            except Exception:  # decoders raise anything on bad input
                return None
            if not isinstance(value, dict):
                return None
            values.append({name: value.get(name) for name in self._schema.names})
        try:
            return pa.array(values, self._struct)
        except (ValueError, TypeError, OverflowError):  # Arrow's own errors are such, too
            return None


def _json_schemas(schema: pa.Schema) -> list[pa.Schema]:
    """The schemas by which JSON is parsed, in the order of tries; what they give is cast to `schema`.

    Arrow reads texts as timestamps, but not as dates, and a timestamp has at most the digits of its unit.
    Nanoseconds are not the first try, since they end in the year 2262.
    """
    days = {pa.date32(): pa.timestamp("us")}
    digits = {_TIMESTAMP: pa.timestamp("ns", tz="UTC")}
    # By the last one a date is a number of days.
    tries = [_replaced(schema, days), _replaced(schema, days | digits), schema]
    return list(dict.fromkeys(tries))


def _replaced(schema: pa.Schema, types: dict[pa.DataType, pa.DataType]) -> pa.Schema:
    """The schema with other types in place of some, also within lists and structs."""

    def replaced(found: pa.DataType) -> pa.DataType:
        if pa.types.is_list(found):
            return pa.list_(replaced(found.value_type))
        if pa.types.is_struct(found):
            return pa.struct([each.with_type(replaced(each.type)) for each in found.fields])
        return types.get(found, found)

    return pa.schema([each.with_type(replaced(each.type)) for each in schema])


def _are_objects(bodies: pa.Array) -> bool:
    """Whether each body begins and ends with a brace, apart from white space."""
    begin = pc.equal(pc.binary_slice(bodies, 0, 1), b"{")
    end = pc.equal(pc.binary_slice(bodies, -1), b"}")
    if pc.all(pc.and_(begin, end)).as_py():
        return True
    begin = pc.match_substring_regex(bodies, _BEGIN)
    end = pc.match_substring_regex(bodies, _END)
    return bool(pc.all(pc.and_(begin, end)).as_py())


def _avro(body: bytes) -> Any:
    import fastavro

    records = list(fastavro.reader(io.BytesIO(body)))
    (record,) = records
    return record
