from __future__ import annotations

import random
from pathlib import Path

from crash.powered_disk import PoweredDisk
from unit.log_backend.open_store import append, start_store

from log_backend.log_directory import partition_directory
from log_backend.segment_writer import NUMBER_FILE

POWER_CUTS = 40  # with other luck each


async def test_a_number_file_that_a_killed_run_had_not_synced_is_durable_before_a_segment_is(
    tmp_path: Path,
) -> None:
    disk = PoweredDisk(tmp_path / "data", random.Random(1))
    directory = partition_directory(disk.root / "logs", "/", "q", 0)
    disk.make_directory(directory)
    file = disk.open(directory / NUMBER_FILE, create=True)
    disk.write(file, 0, [b"1"])
    disk.sync_directory(directory)
    disk.close(file)

    store, (partition,) = start_store(disk.root, disk=disk)
    append(partition)
    await store.flush()
    images = [disk.image_after_power_cut(tmp_path / str(cut)).root for cut in range(POWER_CUTS)]
    await store.aclose()

    segments = [segment for image in images for segment in image.glob("logs/*/*/*.log")]
    numbers = {segment.with_name(NUMBER_FILE).read_bytes() for segment in segments}
    assert numbers == {b"1"}
