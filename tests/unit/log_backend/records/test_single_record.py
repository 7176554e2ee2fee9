"""One record whose body comes in pieces, against the batch encoded at once."""

from array import array

import pytest

from routelog.log_backend import SingleRecord, encode_records

PROPERTIES = b"\x10\x00\x02"


@pytest.mark.parametrize("body", [b"", b"x", b"seven b", b"eight by", bytes(range(256)) * 9])
@pytest.mark.parametrize("piece", [1, 3, 4_096])
def test_its_batch_is_the_one_encoded_at_once(body: bytes, piece: int) -> None:
    record = SingleRecord(b"logs", b"key", PROPERTIES, len(body))
    for at in range(0, len(body), piece):
        assert record.missing == len(body) - at
        if at % 2:
            record.add(body[at : at + piece])
        else:
            room = record.room()
            assert len(room) == record.missing
            size = min(piece, len(room))
            room[:size] = body[at : at + size]
            record.filled(size)
    assert record.missing == 0
    source = bytearray(b"key" + PROPERTIES + body)
    rows = memoryview(array("i", (0, 3, 3, 3, 6, len(body))))
    whole = encode_records(memoryview(source), rows, None, 1, b"logs", b"key", 2, 1_234)
    made = record.records(2, 1_234)
    assert bytes(made.payload) == bytes(whole.payload)
    assert made.payload_crc() == whole.payload_crc()
    for name in ("count", "attributes", "exchange", "keys_bytes", "properties_bytes"):
        assert getattr(made, name) == getattr(whole, name)
    assert (made.bodies_bytes, made.time, made.last_time) == (len(body), 1_234, 1_234)


def test_its_row_finds_its_parts() -> None:
    record = SingleRecord(b"logs", b"key", PROPERTIES, 4)
    record.add(b"body")
    source, row = bytes(record.source), record.row
    parts = [source[row[at] : row[at] + row[at + 1]] for at in (0, 2, 4)]
    assert parts == [b"key", PROPERTIES, b"body"]
