"""Every byte of a metadata store's files flipped: refused, or nothing but the last change is missing.

`make test` takes every 61st byte, and the headers of some records; `make crash` all.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from crash.damage.test_every_byte import flipped
from crash.damage.test_every_file import EVERY_BYTE, STEP

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.metadata.metadata import (
    Change,
    MetadataCorrupt,
    MetadataStore,
    MetadataUnavailable,
)
from routelog.log_backend.metadata.metadata_log import find_damage

pytestmark = pytest.mark.crash

CHANGES = 30
HEADERS = 3  # whose bytes are all flipped, always


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """What a broker leaves that is killed after some changes of topology."""
    store = MetadataStore.open(tmp_path / "store")
    for number in range(CHANGES):
        store.apply([Change(b"key/%02d" % number, b"value %d" % number * 3)])
    shutil.copytree(tmp_path / "store", tmp_path / "source")
    store.close()
    return tmp_path / "source"


def stored(path: Path) -> list[bytes] | None:
    """The keys that a start finds; None when it is refused."""
    try:
        store = MetadataStore.open(path)
    except (MetadataCorrupt, MetadataUnavailable):
        return None
    found = [key for key, _ in store.scan(b"key/")]
    store.close()
    return found


def record_places(log: bytes) -> list[int]:
    """Where the records of one of RocksDB's own logs begin, all in one block."""
    places, at = [], 0
    while at < len(log):
        places.append(at)
        at += 7 + struct.unpack_from("<H", log, at + 4)[0]
    assert at == len(log)
    return places


@pytest.mark.parametrize("kind", ["[0-9]*.log", "MANIFEST-*", "CURRENT"])
def test_a_flipped_byte_of_the_metadata_costs_the_last_change_at_most(
    source: Path, tmp_path: Path, kind: str, figures: Callable[[str], None]
) -> None:
    (path,) = source.glob(kind)
    content = path.read_bytes()
    promised = [b"key/%02d" % number for number in range(CHANGES)]
    places = set(range(0, len(content), STEP))
    last = len(content)
    if kind != "CURRENT":
        records = record_places(content)
        headers = {*records[:: 1 + len(records) // HEADERS], records[-1]}
        places |= {record + at for record in headers for at in range(7)}
        last = records[-1] if path.suffix == ".log" else last
    refused = 0
    for at in sorted(places):
        copy = tmp_path / f"flip-{at}"
        shutil.copytree(source, copy)
        (copy / path.name).write_bytes(flipped(content, at))
        found = stored(copy)
        shutil.rmtree(copy)
        refused += found is None
        assert found is None or found == promised or (at >= last and found == promised[:-1]), at
    assert refused
    if EVERY_BYTE:
        figures(f"{len(places)} bytes of {path.name} flipped, {refused} refused")


def test_a_torn_end_of_the_metadata_is_no_damage(source: Path, tmp_path: Path) -> None:
    (path,) = source.glob("[0-9]*.log")
    content = path.read_bytes()
    records = record_places(content)
    for length in {*range(records[-2], len(content), 7), *(records[-1] + at for at in range(8))}:
        for rest in (b"", bytes(len(content) - length)):  # zeros where nothing was written
            copy = tmp_path / f"cut-{length}-{len(rest)}"
            shutil.copytree(source, copy)
            (copy / path.name).write_bytes(content[:length] + rest)
            assert find_damage(SystemDisk(), copy) is None
            if not rest:
                found = stored(copy)
                assert found is not None
                assert len(found) >= CHANGES - 2
            shutil.rmtree(copy)
