"""The compiled record batch and its encoding against the same sources uncompiled: equal outcomes."""

from __future__ import annotations

from array import array
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from routelog.log_backend.records import record_batch as compiled
from routelog.log_backend.records import record_encoding as compiled_encoding

FOLDER = Path(__file__).parents[2] / "log_backend" / "records"

pytestmark = pytest.mark.skipif(
    not str(compiled.__file__).endswith(".so"), reason="the kernel is not compiled"
)


def load_uncompiled(name: str) -> ModuleType:
    spec = spec_from_file_location(f"uncompiled_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


uncompiled = load_uncompiled("record_batch")
uncompiled_encoding = load_uncompiled("record_encoding")


def outcome(module: ModuleType, call: str, *arguments: object, **options: object) -> object:
    """What a call gives, or the name and text of what it raises."""
    try:
        return described(getattr(module, call)(*arguments, **options))
    except (ValueError, IndexError, compiled.CorruptBatch, uncompiled.CorruptBatch) as error:
        text = "" if isinstance(error, IndexError) else str(error)  # worded by the language
        return type(error).__name__, text


def described(value: Any) -> object:
    if hasattr(value, "header"):
        return value.header(), value.base_offset, value.end_offset, described(value.records)
    if hasattr(value, "payload"):
        fields = ("count", "attributes", "exchange", "keys_bytes", "properties_bytes", "time")
        return bytes(value.payload), *(getattr(value, field) for field in fields)
    return value


SOURCES = st.binary(max_size=200)
PLACES = st.one_of(st.integers(0, 60), st.sampled_from([-1, 199, 200, 2**31 - 1, -(2**31)]))
ROWS = st.lists(st.lists(PLACES, min_size=6, max_size=6), max_size=8)
GOOD_ROWS = st.lists(
    st.tuples(*[st.integers(0, 9), st.integers(0, 9)] * 3).map(list), min_size=1, max_size=30
)
KEYS = st.one_of(st.none(), st.binary(max_size=20))


def encode_both(
    source: bytes,
    rows: list[list[int]],
    selection: list[int] | None,
    count: int,
    exchange: bytes,
    key: bytes | None,
) -> tuple[object, object]:
    table = array("i", [number for row in rows for number in row])
    chosen = None if selection is None else memoryview(array("i", selection))
    arguments = memoryview(bytearray(source)), memoryview(table), chosen, count, exchange, key
    first = outcome(compiled_encoding, "encode_records", *arguments, 2, 1_700)
    second = outcome(uncompiled_encoding, "encode_records", *arguments, 2, 1_700)
    return first, second


@given(source=SOURCES, rows=ROWS, extra=st.integers(-1, 1), exchange=SOURCES, key=KEYS)
@example(source=b"", rows=[], extra=0, exchange=b"", key=None)
def test_any_table_is_encoded_or_refused_alike(
    source: bytes, rows: list[list[int]], extra: int, exchange: bytes, key: bytes | None
) -> None:
    first, second = encode_both(source, rows, None, len(rows) + extra, exchange, key)
    assert first == second


@given(rows=GOOD_ROWS, exchange=st.binary(max_size=255), key=KEYS, data=st.data())
def test_good_tables_are_encoded_alike(
    rows: list[list[int]], exchange: bytes, key: bytes | None, data: st.DataObject
) -> None:
    places = st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=40)
    selection = data.draw(st.one_of(st.none(), places))
    count = len(rows) if selection is None else len(selection)
    source = data.draw(st.binary(min_size=18, max_size=40))
    first, second = encode_both(source, rows, selection, count, exchange, key)
    assert first == second
    assert isinstance(first, tuple)
    assert isinstance(first[0], bytes)


@given(selection=st.lists(st.integers(-3, 5), min_size=1, max_size=4))
def test_a_selection_outside_of_the_table_is_refused_by_both(selection: list[int]) -> None:
    inside = all(0 <= index < 3 for index in selection)
    rows = [[0, 1, 1, 1, 2, 1]] * 3
    first, second = encode_both(b"abcdef", rows, selection, len(selection), b"", b"k")
    refused = [isinstance(each, tuple) and isinstance(each[0], str) for each in (first, second)]
    if inside:
        assert first == second
        assert refused == [False, False]
    else:
        assert refused[0], "compiled code must not read outside of the table"


@given(rows=GOOD_ROWS, key=KEYS, source=st.binary(min_size=18, max_size=40), data=st.data())
def test_parts_are_what_their_selections_encode_to(
    rows: list[list[int]], key: bytes | None, source: bytes, data: st.DataObject
) -> None:
    places = st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=5)
    selections = data.draw(st.lists(places, max_size=8))
    wanted = [encode_both(source, rows, each, len(each), b"x", key)[1] for each in selections]
    table = array("i", [number for row in rows for number in row])
    views = memoryview(bytearray(source)), memoryview(table)
    for module in (compiled_encoding, uncompiled_encoding):
        parts = module.encode_parts(*views, selections, b"x", key, 2, 1_700)
        assert [described(part) for part in parts] == wanted


@given(
    bodies=st.lists(st.binary(max_size=30), min_size=1, max_size=10),
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3),
    cut=st.one_of(st.none(), st.integers(0, 400)),
    at=st.integers(0, 9),
)
def test_any_bytes_are_decoded_or_refused_alike(
    bodies: list[bytes],
    flips: list[tuple[int, int]],
    cut: int | None,
    at: int,
) -> None:
    source = b"".join(bodies)
    rows = array("i")
    start = 0
    for body in bodies:
        rows.extend((0, 0, 0, 0, start, len(body)))
        start += len(body)
    content = compiled_encoding.encode_records(
        memoryview(bytearray(source)), memoryview(rows), None, len(bodies), b"e", b"k", 2, 5
    )
    batch = compiled.RecordBatch(content, 1 << 33, 3)
    whole = bytearray(bytes(at) + batch.header() + bytes(content.payload))
    for place, value in flips:
        whole[place % len(whole)] = value
    kept = bytes(whole[:cut])
    for buffer in (kept, memoryview(kept)):
        first = outcome(compiled, "decode_batch", buffer, at)
        assert first == outcome(uncompiled, "decode_batch", buffer, at)


@given(data=st.binary(max_size=300))
def test_checksums_are_alike(data: bytes) -> None:
    assert compiled.crc32c(data) == uncompiled.crc32c(memoryview(data))
