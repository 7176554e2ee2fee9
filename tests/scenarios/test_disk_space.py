"""A data directory on a file system of 64 MiB: publishers wait at the reserve, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from pika.adapters.blocking_connection import BlockingChannel
from pika_client import PERSISTENT, Clients, declare, drain, ready_count, round_trip, wait_until
from scenarios.confirmed_publisher import WINDOW, ConfirmedPublisher, number_of

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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB of its own; mounting it takes root, as CI has it."""
    directory = tmp_path / "small"
    directory.mkdir()
    size = f"size={DISK_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


@pytest.fixture
def small_broker(small_disk: Path) -> Iterator[Callable[[], BrokerProcess]]:
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
    with path.open("wb", buffering=0) as file, suppress(OSError):  # full, for `leave` 0
        while leave == 0 or free_bytes(directory) > leave:
            file.write(bytes(BALLAST_BYTES))
    return path


def fill(publisher: ConfirmedPublisher) -> None:
    wait_until(lambda: publisher.blocked, seconds=FILL_SECONDS_MAX)


def wait_for_more(publisher: ConfirmedPublisher) -> None:
    """Wait until it has published and more than what was under way is confirmed."""
    confirmed = len(publisher.confirmed)
    wait_until(lambda: len(publisher.confirmed) > confirmed + WINDOW)


def take(channel: BlockingChannel, queue: str) -> list[int]:
    """The numbers of as many messages as there are when it begins."""
    bodies = [
        channel.basic_get(queue, auto_ack=True)[2] for _ in range(ready_count(channel, queue))
    ]
    return [number_of(body) for body in bodies]


def test_publishers_wait_at_the_reserve_and_go_on_when_consumers_have_made_room(
    small_disk: Path, small_broker: Callable[[], BrokerProcess]
):
    broker = small_broker()
    with connected(broker) as clients:
        channel = clients.channel()
        declare(channel, "q", durable=True)
        with publishing(broker, "q") as publisher:
            reached_at = 0.0
            deadline = time.monotonic() + FILL_SECONDS_MAX
            while not publisher.blocked:
                if not reached_at and free_bytes(small_disk) < RESERVE_BYTES:
                    reached_at = time.monotonic()
                assert time.monotonic() < deadline
            assert publisher.reasons == ["low on disk"]
            assert not reached_at or publisher.blocked_at[0] - reached_at < NOTICE_SECONDS_MAX
            assert free_bytes(small_disk) > RESERVE_BYTES // 2

            # Others connect, declare, consume, acknowledge, purge and delete meanwhile.
            declare(channel, "other", durable=True)
            channel.queue_purge("other")
            channel.queue_delete("other")
            waiting = ready_count(channel, "q")
            assert waiting >= len(publisher.confirmed) > 1_000
            confirmed = len(publisher.confirmed)
            got: list[int] = []
            for deliver, _, body in channel.consume("q"):
                got.append(number_of(body))
                channel.basic_ack(deliver.delivery_tag)
                if publisher.unblocked_at:
                    break
            room_at = time.monotonic()
            assert publisher.unblocked_at[0] - room_at < NOTICE_SECONDS_MAX
            channel.cancel()

            # The publisher goes on by itself: with what was under way, and with more.
            wait_until(lambda: len(publisher.confirmed) > confirmed + WINDOW)
        assert not publisher.refused
        got += take(channel, "q")
        assert publisher.confirmed <= set(got)
        assert got == sorted(set(got))
    assert "publishers wait" in broker.log_text()
    assert broker.terminate() == 0


def test_what_others_write_and_remove_blocks_and_unblocks_within_a_second(
    small_disk: Path, small_broker: Callable[[], BrokerProcess]
):
    broker = small_broker()
    with connected(broker) as clients:
        channel = clients.channel()
        declare(channel, "q", durable=True)
        with publishing(broker, "q") as publisher:
            wait_until(lambda: len(publisher.confirmed) > 100)
            for leave in (RESERVE_BYTES // 2, 0):
                count = len(publisher.blocked_at)
                ballast = write_ballast(small_disk, leave=leave)
                full_at = time.monotonic()
                wait_until(lambda: publisher.blocked)
                assert publisher.blocked_at[count] - full_at < NOTICE_SECONDS_MAX
                assert take(channel, "q")
                ballast.unlink()
                free_at = time.monotonic()
                wait_until(lambda: not publisher.blocked)
                assert publisher.unblocked_at[count] - free_at < NOTICE_SECONDS_MAX
                wait_for_more(publisher)
        assert not publisher.refused
    assert broker.terminate() == 0


def test_a_kill_while_blocked_loses_nothing_and_the_start_on_the_full_disk_lets_consumers_drain(
    small_disk: Path, small_broker: Callable[[], BrokerProcess]
):
    broker = small_broker()
    with connected(broker) as clients:
        declare(clients.channel(), "q", durable=True)
        with publishing(broker, "q") as publisher:
            fill(publisher)
            broker.kill()
    write_ballast(small_disk, leave=RESERVE_BYTES)
    broker.start()
    with connected(broker) as clients:
        channel = clients.channel()
        with publishing(broker, "q", first=publisher.sent) as later:
            wait_until(lambda: later.blocked)
            assert later.reasons == ["low on disk"]
            assert not later.confirmed
            got = take(channel, "q")
            assert publisher.confirmed <= set(got)
            assert got == sorted(set(got))
            wait_until(lambda: later.confirmed)
            round_trip(channel)
        assert not later.refused
    assert broker.terminate() == 0


def test_a_client_with_its_callbacks_is_told_and_one_that_only_consumes_is_not(
    small_disk: Path, small_broker: Callable[[], BrokerProcess]
):
    broker = small_broker()
    with connected(broker) as clients:
        publisher, consumer = clients.connect(), clients.connect()
        told: list[str] = []
        publisher.add_on_connection_blocked_callback(
            lambda _, frame: told.append(frame.method.reason)
        )
        publisher.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
        consumer.add_on_connection_blocked_callback(lambda *_: told.append("wrong one"))
        channel = publisher.channel()
        declare(channel, "q", durable=True)
        ballast = write_ballast(small_disk, leave=RESERVE_BYTES // 2)
        wait_until(lambda: "publishers wait" in broker.log_text())
        reader = consumer.channel()
        round_trip(channel)  # it has not published yet: it is not held
        assert not told
        channel.basic_publish("", "q", b"held", PERSISTENT)
        wait_until(lambda: told, publisher, consumer)
        assert drain(reader, "q") == []
        ballast.unlink()
        wait_until(lambda: len(told) == 2, publisher, consumer)
        round_trip(channel)
        assert drain(reader, "q") == [b"held"]
        assert told == ["low on disk", "unblocked"]
