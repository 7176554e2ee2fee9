"""Headers that are added to the messages of one delivery."""

from array import array

from pamqp import commands

from routelog.amqp_front.wire.added_headers import NO_HEADERS, AddedHeaders
from routelog.log_backend import Records, encode_records


def batch(*property_lists: bytes) -> Records:
    rows, source = array("i"), bytearray()
    for each in property_lists:
        rows.extend((0, 0, len(source), len(each), 0, 0))
        source += each
    view = memoryview(source)
    return encode_records(view, memoryview(rows), None, len(property_lists), b"x", b"key", 0, 1)


def test_each_message_has_a_row() -> None:
    added = AddedHeaders(3, {b"n": [7, 8, 9], b"offset": range(40, 43)})
    assert added.names == (b"n", b"offset")
    assert added.fields == b"\x01nl" + bytes(8) + b"\x06offsetl" + bytes(8)
    assert [added.of(at) for at in range(3)] == [
        {b"n": 7, b"offset": 40},
        {b"n": 8, b"offset": 41},
        {b"n": 9, b"offset": 42},
    ]
    assert (NO_HEADERS.fields, len(NO_HEADERS.values)) == (b"", 0)


def test_a_slice_that_may_have_been_published_with_one_is_found() -> None:
    plain = commands.Basic.Properties(headers={"other": 1}).marshal()
    named = commands.Basic.Properties(headers={"inner": {"offset": 1}}).marshal()
    records = batch(plain, named, plain)
    added = AddedHeaders(1, {b"n": [1], b"offset": [2]})
    found = [added.may_be_in(records, first, count) for first, count in [(0, 1), (0, 2), (2, 1)]]
    assert found == [False, True, False]
