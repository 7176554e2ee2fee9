"""A broker whose data directory is a file system of 64 MiB, and what fills that."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from scenarios.clients.confirmed_publisher import ConfirmedPublisher
from support.broker_process import BrokerProcess
from support.pika_client import Clients
from support.waiting import wait_until

MIB = 1024 * 1024
DISK_BYTES = 64 * MIB
RESERVE_BYTES = DISK_BYTES // 8
NOTICE_SECONDS_MAX = 1.0
FILL_SECONDS_MAX = 60.0
BALLAST_BYTES = 65_536  # of one write
ENVIRONMENT = {
    "ROUTELOG_JOURNAL_FILE_BYTES": str(2 * MIB),
    "ROUTELOG_JOURNAL_FILES_MAX": "4",
    "ROUTELOG_SEGMENT_BYTES": str(1 * MIB),
    "ROUTELOG_FLUSH_SECONDS": "0.2",
}


StartBroker = Callable[[], BrokerProcess]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB of its own; mounting it takes root, as CI has it."""
    with mounted_tmpfs(tmp_path) as directory:
        yield directory


@contextmanager
def mounted_tmpfs(parent: Path) -> Iterator[Path]:
    with mounted(parent, "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs") as directory:
        yield directory


@contextmanager
def mounted_ext4(parent: Path) -> Iterator[Path]:
    image = parent / "small.ext4"
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    make = shutil.which("mkfs.ext4", path="/usr/sbin:/usr/bin:/sbin:/bin") or "mkfs.ext4"
    subprocess.run([make, "-q", "-F", "-m", "0", image], check=True)
    with mounted(parent, "-t", "ext4", "-o", "loop", str(image)) as directory:
        yield directory


@contextmanager
def mounted(parent: Path, *what: str) -> Iterator[Path]:
    directory = parent / "small"
    directory.mkdir()
    subprocess.run(["mount", *what, directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


@pytest.fixture
def small_broker(small_disk: Path) -> Iterator[StartBroker]:
    """Starts a broker that keeps its data on the small disk."""
    process = BrokerProcess(small_disk / "data", ENVIRONMENT)
    try:
        yield process.start
    finally:
        process.stop()


@contextmanager
def connected(broker: BrokerProcess) -> Iterator[Clients]:
    clients = Clients(broker.url)
    try:
        yield clients
    finally:
        clients.close()


@contextmanager
def publishing(
    broker: BrokerProcess, queue: str, *, first: int = 0
) -> Iterator[ConfirmedPublisher]:
    publisher = ConfirmedPublisher(broker.host, broker.port, queue, first=first)
    try:
        yield publisher
    finally:
        publisher.stop()


def free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def write_ballast(directory: Path, *, leave: int) -> Path:
    """What another program writes, so that only so much is free."""
    path = directory / "ballast"
    with path.open("wb", buffering=0) as file, suppress(OSError):  # full
        while free_bytes(directory) > leave:
            file.write(bytes(BALLAST_BYTES))
    return path


def take_last_byte(directory: Path) -> None:
    """Another program fills the disk, and takes what a broker that runs removes meanwhile, too."""
    with (directory / "ballast").open("wb", buffering=0) as file:

        def is_full() -> bool:
            with suppress(OSError):
                while True:
                    file.write(bytes(BALLAST_BYTES))
            return free_bytes(directory) < BALLAST_BYTES  # ext4 gives nobody its last pages

        wait_until(is_full)


def fill(publisher: ConfirmedPublisher) -> None:
    wait_until(lambda: publisher.blocked, seconds=FILL_SECONDS_MAX)
