"""Dividing records among partitions."""

from __future__ import annotations

from array import array

import pytest
from unit.log_backend.log_records import records

from routelog.log_backend.records.record_selection import (
    key_partition,
    split_by_routing_key,
    split_records,
)


@pytest.mark.parametrize(
    ("key", "crc"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
@pytest.mark.parametrize("partitions", [1, 2, 3, 16, 255, 256])
def test_a_keys_partition_is_that_of_the_published_vectors_of_crc_32c(
    key: bytes, crc: int, partitions: int
) -> None:
    assert key_partition(key, partitions) == crc % partitions
    keyed = records([b"a", b"b"], routing_keys=[key, key])
    assert split_by_routing_key(keyed, partitions)[0][0] == crc % partitions


def test_records_of_one_partition_are_not_copied() -> None:
    keyed = records([b"a", b"b"], routing_keys=[b"k", b"k"])
    [(_, part)] = split_by_routing_key(keyed, 256)
    assert part is keyed
    shared = records([b"a", b"b", b"c"])
    for place in (0, 1, 2):
        assert split_records(shared, array("i", [place] * 3), 3) == [(place, shared)]


def test_those_that_share_the_records_see_no_change() -> None:
    keyed = records([b"a", b"bb", b""], routing_keys=[b"1", b"2", b"3"])
    before, crc = bytes(keyed.payload), keyed.payload_crc()
    parts = split_records(keyed, array("i", [2, 0, 2]), 3)
    assert bytes(keyed.payload) == before
    assert [each.payload_crc() for _, each in parts] != [crc, crc]
    assert keyed.payload_crc() == crc


def test_the_parts_keep_what_records_share() -> None:
    whole = records([b"a", b"b"], exchange=b"events", routing_key=b"k", persistent=False, time=5)
    whole.last_time = 9
    for _, part in split_records(whole, array("i", [1, 0]), 2):
        assert (part.exchange, part.routing_key(0), part.persistent) == (b"events", b"k", False)
        assert (part.time, part.last_time, part.has_key_column) == (5, 9, False)


@pytest.mark.parametrize("place", [2, 2**31 - 1])
def test_a_partition_that_is_not_there_is_refused(place: int) -> None:
    with pytest.raises(IndexError):
        split_records(records([b"a", b"b"]), array("i", [0, place]), 2)
