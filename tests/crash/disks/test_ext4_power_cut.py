"""Power cuts on a real ext4 under the real broker with confirmed load, on one ageing file system."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash.disks import disk_directories
from crash.disks.ext4_image import Ext4Image
from crash.kills.loaded_history import (
    LIMITS,
    check_churned,
    check_counts,
    check_filters,
    declare_all,
    drain_all,
    load_until_killed,
    new_history,
    start_in_time,
)
from support.broker_process import BrokerProcess

pytestmark = pytest.mark.crash
tmp_path_factory = disk_directories.tmp_path_factory

POWER_CUTS = int(os.environ.get("ROUTELOG_TEST_EXT4_CUTS", "1"))
DRAIN_EVERY = 5


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Ext4Image]:
    image = Ext4Image(tmp_path)
    image.make()
    try:
        yield image
    finally:
        image.unmount()


def test_the_image_of_this_test_loses_what_was_not_synced(image: Ext4Image) -> None:
    synced, other = image.mounted_at / "synced", image.mounted_at / "other"
    with synced.open("wb") as file:
        file.write(b"kept")
        file.flush()
        os.fsync(file.fileno())
        file.write(b"lost")
    other.write_bytes(b"lost")
    image.cut_power()
    assert synced.read_bytes() == b"kept"
    assert not other.exists()


def test_nothing_confirmed_is_lost_by_power_cuts_on_ext4(
    image: Ext4Image, figures: Callable[[str], None]
) -> None:
    history = new_history(lost={"memory", "os"})
    broker = BrokerProcess(image.mounted_at / "data", LIMITS)
    try:
        broker.start()
        declare_all(broker.url, history)
        for cut in range(1, POWER_CUTS + 1):
            load_until_killed(broker, history)
            image.cut_power()
            start_in_time(broker, history)
            check_counts(broker.url, history)
            check_filters(broker.url, history)
            if cut % DRAIN_EVERY == 0 or cut == POWER_CUTS:
                drain_all(broker.url, history)
                check_churned(broker.url, history)
        assert broker.terminate() == 0
    except BaseException:
        print(broker.log_text()[-5000:])  # noqa: T201
        raise
    finally:
        broker.stop()
    figures(
        f"{POWER_CUTS} power cuts on ext4: {history.confirmed} messages confirmed, "
        f"{history.recovered} recovered and drained"
    )
