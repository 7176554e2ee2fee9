"""Readers of logs see what its durability promises, and see it as soon as it is that."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from support.broker_process import COMMAND_VARIABLE, BrokerProcess
from support.log_service import http_logs
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients, Inbox, ready_count

from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.readable_logs import LogPartition

pytestmark = pytest.mark.differs_from_rabbitmq("its disk cannot be held from here")

PROGRAM = Path(__file__).with_name("faulty_disk_broker.py")
KINDS = [{"x-queue-type": "stream"}, {"x-retention": "1h"}]
LOG = LogPartition("/", "log", 0)
QUIET_SECONDS = 0.3  # thirty times what a commit may wait
FLUSHED_SECONDS = 0.05
# Larger than what the event loop would write itself: a held disk would hold it.
HIDDEN = LOST = bytes(5_000)


@pytest.fixture
def faults(tmp_path, monkeypatch):
    """Where a file `stall` makes every sync of the journal wait."""
    folder = tmp_path / "faults"
    folder.mkdir()
    monkeypatch.setenv("ROUTELOG_TEST_FAULTS", str(folder))
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(PROGRAM)]))
    return folder


@pytest.fixture
def held_broker(faults, tmp_path):
    """One that writes segments at once, and whose syncs can be held."""
    broker = BrokerProcess(tmp_path / "data", {"ROUTELOG_FLUSH_SECONDS": str(FLUSHED_SECONDS)})
    yield broker.start()
    broker.stop()


class Readers:
    """A reader of a log, one that attaches at its end, and a group, each on a connection of its own."""

    def __init__(self, clients: Clients) -> None:
        self._inboxes = [
            reading(clients, {"x-stream-offset": "first"}),
            reading(clients, {"x-stream-offset": "next"}),
            reading(clients, {"x-stream-offset": "next", "x-group": "g"}),
        ]

    def bodies(self) -> list[list[bytes]]:
        """What each was given after a while."""
        for each in self._inboxes:
            each.channel.connection.process_data_events(time_limit=QUIET_SECONDS)
        return [each.bodies for each in self._inboxes]

    def wait_for(self, *counts: int) -> None:
        for each, count in zip(self._inboxes, counts, strict=True):
            each.wait_for(count)

    def offsets(self) -> list[list[int]]:
        """Of what each was given."""
        return [
            [properties.headers["x-stream-offset"] for _, properties, _ in each.deliveries]
            for each in self._inboxes
        ]


def reading(clients: Clients, arguments: dict[str, str]) -> Inbox:
    channel = clients.channel()
    channel.basic_qos(prefetch_count=100)
    return Inbox(channel, "log", arguments=arguments)


def filled(clients: Clients, arguments: dict[str, str]):
    """A channel, and a log with one durable message."""
    channel = clients.channel()
    channel.queue_declare("log", durable=True, arguments=arguments)
    confirming = clients.channel()
    confirming.confirm_delivery()
    confirming.basic_publish("", "log", b"durable", PERSISTENT)
    return channel


def ends(broker: BrokerProcess) -> tuple[int, int, int]:
    """Where the log ends for those who ask over HTTP, or look into the directory."""
    log = ManagementDoor(broker).get("logs", "/", "log", "0")
    directory = LogDirectory(broker.data_dir)
    return (
        log["next_offset"],
        http_logs(broker).extents(LOG)[-1].end,
        directory.extents(LOG)[-1].end,
    )


@pytest.mark.parametrize("arguments", KINDS)
def test_readers_get_nothing_before_the_disk_has_it_and_then_at_once(
    faults, held_broker, arguments
):
    clients = Clients(held_broker.url)
    channel = filled(clients, arguments)
    # A group begins where the log ends now. To make it is a change of topology, which the disk has to have.
    reading(clients, {"x-stream-offset": "next", "x-group": "g"}).channel.close()
    (faults / "stall").touch()
    channel.basic_publish("", "log", HIDDEN, PERSISTENT)
    channel.basic_publish("", "log", b"transient")
    assert ready_count(channel, "log") == (1 if "x-queue-type" in arguments else 3)
    readers = Readers(clients)
    assert readers.bodies() == [[b"durable"], [], []]
    assert max(ends(held_broker)) == 1
    (faults / "stall").unlink()
    readers.wait_for(3, 2, 2)
    assert readers.offsets() == [[0, 1, 2], [1, 2], [1, 2]]
    clients.close()


@pytest.mark.parametrize("arguments", KINDS)
def test_what_a_kill_takes_was_seen_by_nobody(faults, held_broker, arguments):
    clients = Clients(held_broker.url)
    channel = filled(clients, arguments)
    readers = Readers(clients)
    (faults / "stall").touch()
    for _ in range(10):
        channel.basic_publish("", "log", LOST, PERSISTENT)
        channel.basic_publish("", "log", LOST)
    assert readers.bodies() == [[b"durable"], [], []]
    assert max(ends(held_broker)) == 1
    held_broker.kill()
    (faults / "stall").unlink()
    held_broker.start()
    after = clients.channel()
    after.confirm_delivery()
    after.basic_publish("", "log", b"after", PERSISTENT)
    resumed = reading(clients, {"x-stream-offset": 1})
    resumed.wait_for_at_least(1)
    while resumed.bodies[-1] != b"after":
        resumed.wait_for_at_least(len(resumed.deliveries) + 1)
    assert set(resumed.bodies[:-1]) <= {LOST}
