from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from crash.disks.powered_disk import PoweredDisk
from unit.log_backend.open_store import (
    append,
    crash,
    durable,
    flushed,
    numbered,
    open_store,
    start_store,
    unsettled,
)

from routelog.log_backend.records.record_batch import batch_bytes
from routelog.log_backend.segments.first_kept import first_kept_change
from routelog.log_backend.segments.log_directory import partition_directory, segment_path
from routelog.log_backend.segments.partition_file import PARTITION_FILE, encode_number

POWER_CUTS = 40  # with other luck each


async def test_a_number_file_that_a_killed_run_had_not_synced_is_durable_before_a_segment_is(
    tmp_path: Path,
) -> None:
    disk = PoweredDisk(tmp_path / "data", random.Random(1))
    directory = partition_directory(disk.root / "logs", "/", "q", 0)
    disk.make_directory(directory)
    file = disk.open(directory / PARTITION_FILE, create=True)
    disk.write(file, 0, [encode_number(1)])
    disk.sync_directory(directory)
    disk.close(file)

    store, (partition,) = start_store(disk.root, disk=disk)
    append(partition)
    await flushed(store)
    images = [disk.image_after_power_cut(tmp_path / str(cut)).root for cut in range(POWER_CUTS)]
    await store.aclose()

    segments = [segment for image in images for segment in image.glob("logs/*/*/*.log")]
    numbers = {segment.with_name(PARTITION_FILE).read_bytes() for segment in segments}
    assert numbers == {encode_number(1)}


async def test_what_is_written_again_is_not_measured_by_what_was_synced_and_removed(
    data: Path,
) -> None:
    store, (partition,) = start_store(data)
    for _ in range(5):
        await durable(store, append(partition))
    await store.checkpoints.take()
    left = await crash(store, data)
    await store.aclose()
    # The segment went when everything was settled; then a power cut took the settlements.
    (segment,) = left.glob("logs/*/*/*.log")
    written = segment.read_bytes()
    shutil.rmtree(segment.parent)
    second = open_store(left)
    second.metadata.apply([first_kept_change(1, None)])
    second.open_partition(1, "/", "q", 0, durable=True)
    second.recover()
    # It is killed when the first batch was written again.
    second.metadata.close()
    second._disk.close(second._lock)
    segment.parent.mkdir()
    segment.with_name(PARTITION_FILE).write_bytes(encode_number(1))
    segment.write_bytes(written[: batch_bytes(written, 0)])
    store, (partition,) = start_store(left, epoch=2)
    assert not partition.damage.found
    assert await unsettled(partition) == numbered(*range(5))
    await store.aclose()


@pytest.mark.parametrize("content", [b"", b"torn"])
async def test_what_only_the_name_of_a_torn_segment_calls_settled_is_handed_out_again(
    data: Path, content: bytes
) -> None:
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 2))
    left = await crash(store, data)
    await store.aclose()
    # Both were settled, and the next batch is on its way to a segment; no journal says so yet.
    directory = partition_directory(left / "logs", "/", "q", 0)
    directory.mkdir(parents=True)
    (directory / PARTITION_FILE).write_bytes(encode_number(1))
    torn = segment_path(directory, 2)
    torn.write_bytes(content)
    store, (partition,) = start_store(left, epoch=2)
    assert await unsettled(partition) == numbered(0, 1)
    assert not torn.exists()  # so after another crash, there would be nothing else to go by
    await durable(store, append(partition))
    assert await unsettled(partition) == numbered(0, 1, 2)
    await store.aclose()
