"""Dividing records in the kernel against doing it record by record, compiled and uncompiled."""

from __future__ import annotations

from array import array
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import google_crc32c
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from routelog.log_backend.records import record_selection as imported
from routelog.log_backend.records.record_batch import PERSISTENT, Records
from routelog.log_backend.records.record_encoding import encode_records

SOURCE = Path(__file__).parents[2] / "log_backend" / "records" / "record_selection.py"

Message = tuple[bytes, bytes, bytes]  # key, properties, body

SIZED = st.one_of(st.binary(max_size=6), st.binary(min_size=250, max_size=255))
MESSAGES = st.lists(
    st.tuples(
        st.one_of(st.sampled_from([b"", b"a", b"b", b"c"]), SIZED),
        st.binary(min_size=2, max_size=8),
        st.binary(max_size=40),
    ),
    min_size=1,
    max_size=60,
)


def uncompiled() -> ModuleType:
    spec = spec_from_file_location("uncompiled_record_selection", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BOTH = pytest.mark.parametrize("kernel", [imported, uncompiled()], ids=["imported", "uncompiled"])


def encoded(messages: list[Message], *, keyed: bool, attributes: int) -> Records:
    rows, source = array("i"), bytearray()
    for message in messages:
        for part in message:
            rows.extend((len(source), len(part)))
            source += part
    key = None if keyed else b"shared"
    buffer, table, count = memoryview(source), memoryview(rows), len(messages)
    content: Records = encode_records(buffer, table, None, count, b"x", key, attributes, 7)
    return content


def contents(records: Records) -> list[Message]:
    indexes = range(records.count)
    return [(records.routing_key(i), records.properties(i), records.body(i)) for i in indexes]


def one_by_one(
    messages: list[Message], places: list[int], *, keyed: bool, attributes: int
) -> list[tuple[int, bytes]]:
    """The parts that encoding each partition's messages anew would give."""
    parts = []
    for place in sorted(set(places)):
        chosen = [each for each, at in zip(messages, places, strict=True) if at == place]
        part = encoded(chosen, keyed=keyed, attributes=attributes)
        parts.append((place, bytes(part.payload)))
    return parts


@BOTH
@settings(deadline=None)
@given(messages=MESSAGES, partitions=st.integers(1, 256), persistent=st.booleans())
@example(messages=[(b"", b"\0\0", b"")], partitions=1, persistent=False)
def test_a_split_by_routing_key_is_that_of_a_split_record_by_record(
    kernel: ModuleType, messages: list[Message], partitions: int, persistent: bool
) -> None:
    attributes = PERSISTENT * persistent
    whole = encoded(messages, keyed=True, attributes=attributes)
    before = bytes(whole.payload)
    parts = kernel.split_by_routing_key(whole, partitions)
    places = [google_crc32c.value(key) % partitions for key, _, _ in messages]
    assert [(place, bytes(part.payload)) for place, part in parts] == one_by_one(
        messages, places, keyed=True, attributes=attributes
    )
    assert {part.attributes for _, part in parts} == {whole.attributes}
    assert bytes(whole.payload) == before


@BOTH
@settings(deadline=None)
@given(messages=MESSAGES, partitions=st.integers(1, 9), keyed=st.booleans(), data=st.data())
def test_any_split_keeps_each_record_once_and_the_order_within_a_partition(
    kernel: ModuleType, messages: list[Message], partitions: int, keyed: bool, data: st.DataObject
) -> None:
    count = len(messages)
    each_place = st.lists(st.integers(0, partitions - 1), min_size=count, max_size=count)
    places = data.draw(each_place)
    whole = encoded(messages, keyed=keyed, attributes=0)
    parts = kernel.split_records(whole, array("i", places), partitions)
    wanted: dict[int, list[Message]] = {}
    for place, message in zip(places, contents(whole), strict=True):
        wanted.setdefault(place, []).append(message)
    assert {place: contents(part) for place, part in parts} == wanted
    assert [place for place, _ in parts] == sorted(wanted)
