"""Joining records in the kernel against doing it record by record, compiled and uncompiled."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.frame_samples import source_module

from routelog.log_backend.records import record_joining as imported
from routelog.log_backend.records.record_batch import (
    KEY_COLUMN,
    PERSISTENT,
    RecordBatch,
    Records,
    decode_batch,
)
from routelog.log_backend.records.record_encoding import encode_records

uncompiled = source_module("routelog.log_backend.records.record_joining")

Message = tuple[bytes, bytes, bytes]  # key, properties, body

KEYS = st.one_of(st.sampled_from([b"", b"a", b"bc"]), st.binary(max_size=255))
REST = st.tuples(st.binary(min_size=2, max_size=8), st.binary(max_size=40))


def encoded(messages: list[Message], key: bytes | None) -> Records:
    rows, source = array("i"), bytearray()
    for message in messages:
        for part in message:
            rows.extend((len(source), len(part)))
            source += part
    buffer, table = memoryview(source), memoryview(rows)
    content: Records = encode_records(
        buffer, table, None, len(messages), b"exchange", key, PERSISTENT, 7
    )
    return content


def contents(records: Records) -> list[Message]:
    indexes = range(records.count)
    return [(records.routing_key(i), records.properties(i), records.body(i)) for i in indexes]


@st.composite
def batches(draw: st.DrawFn) -> Records:
    """With a key for each record, or one for all."""
    shared = draw(st.none() | KEYS)
    rest = draw(st.lists(REST, min_size=1, max_size=4))
    messages = [(draw(KEYS) if shared is None else shared, *each) for each in rest]
    return encoded(messages, shared)


@pytest.mark.parametrize("kernel", [imported, uncompiled], ids=["imported", "uncompiled"])
@settings(max_examples=200, deadline=None, derandomize=True)
@given(parts=st.lists(batches(), min_size=1, max_size=8))
def test_joined_records_are_those_of_the_parts(kernel: object, parts: list[Records]) -> None:
    joined = kernel.join_records(parts)  # type: ignore[attr-defined]
    wanted = [message for part in parts for message in contents(part)]
    assert contents(joined) == wanted
    # As if they had been published together; padding and all.
    keys = {part.routing_key(0) for part in parts}
    shares = len(keys) == 1 and not any(part.attributes & KEY_COLUMN for part in parts)
    assert bytes(joined.payload) == bytes(encoded(wanted, keys.pop() if shares else None).payload)
    batch = RecordBatch(joined, 40, 3)
    stored = decode_batch(bytes(batch.header()) + bytes(joined.payload), 0)
    assert (stored.base_offset, stored.end_offset) == (40, 40 + len(wanted))
    assert contents(stored.records) == wanted
    assert (joined.attributes & PERSISTENT, joined.exchange) == (PERSISTENT, b"exchange")


@pytest.mark.parametrize("kernel", [imported, uncompiled], ids=["imported", "uncompiled"])
@settings(max_examples=200, deadline=None, derandomize=True)
@given(parts=st.lists(batches(), min_size=1, max_size=8), data=st.data())
def test_a_slice_has_the_records_that_were_asked_for(
    kernel: object, parts: list[Records], data: st.DataObject
) -> None:
    whole = kernel.join_records(parts)  # type: ignore[attr-defined]
    index = data.draw(st.integers(0, whole.count - 1))
    count = data.draw(st.integers(1, whole.count - index))
    cut = kernel.slice_records(whole, index, count)  # type: ignore[attr-defined]
    wanted = contents(whole)[index : index + count]
    assert contents(cut) == wanted
    key = None if whole.attributes & KEY_COLUMN else whole.routing_key(0)
    assert bytes(cut.payload) == bytes(encoded(wanted, key).payload)
    stored = decode_batch(bytes(RecordBatch(cut, 0, 0).header()) + bytes(cut.payload), 0)
    assert contents(stored.records) == wanted
    assert (cut.attributes, cut.exchange) == (whole.attributes, b"exchange")
