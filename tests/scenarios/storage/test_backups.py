"""Backups of a broker at work, by the commands, and brokers that start from them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aio_pika import ExchangeType, Message
from support.broker_process import ROOT, BrokerProcess
from support.compressed_queue import SMALL_SEGMENTS
from support.management_door import ManagementDoor
from support.object_server import ObjectServer
from support.pika_client import PERSISTENT, Clients
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("has no such thing")

BODY = b"x" * 2_000
FILLED = 2_000  # messages before a backup: 4 MB, some sixty segments
IN_FLIGHT = 20
STALL_SECONDS_MAX = 30.0  # alone it is below half a second
# Small segments cost their syncs: at this rate the flusher would not keep up, backup or not.
UNDER_LOAD = {
    "ROUTELOG_SEGMENT_BYTES": str(1024 * 1024),
    "ROUTELOG_FLUSH_SECONDS": "0.2",
    "ROUTELOG_MEMORY_TAIL_BYTES": str(256 * 1024 * 1024),
    "ROUTELOG_BACKUP_BYTES_PER_SECOND": "8000000",
}
SLOWLY = {"ROUTELOG_BACKUP_BYTES_PER_SECOND": "2000000"}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
COMMAND = (sys.executable, "-m", "routelog")

Start = Callable[..., BrokerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts brokers with small segments, on directories of this test."""
    started: list[BrokerProcess] = []

    def start(name: str = "data", **settings: str) -> BrokerProcess:
        started.append(BrokerProcess(tmp_path / name, {**SMALL_SEGMENTS, **settings}))
        return started[-1].start()

    yield start
    for each in started:
        each.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    started = ObjectServer(tmp_path_factory.mktemp("objects")).start()
    yield started
    started.stop()


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def told(*arguments: object) -> list[dict[str, Any]]:
    """What a command that succeeds says as JSON."""
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def begin_backup(broker: BrokerProcess, target: object, name: str) -> subprocess.Popen[bytes]:
    command = [*COMMAND, "backup", str(target), "--name", name, "--data-dir", str(broker.data_dir)]
    return subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def fill(broker: BrokerProcess, queue: str = "kept", count: int = FILLED) -> None:
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare(queue, durable=True)
    channel.tx_select()
    for number in range(count):
        channel.basic_publish("", queue, b"%d " % number + BODY, PERSISTENT)
    channel.tx_commit()
    clients.close()


def numbers(broker: BrokerProcess, queue: str, **arguments: object) -> list[int]:
    """Of the messages in a queue, as it hands them out."""
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.basic_qos(prefetch_count=1_000)
    found: list[int] = []

    def take(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        found.append(int(body.split(b" ")[0]))
        if arguments:
            channel.basic_ack(method.delivery_tag)

    count = ManagementDoor(broker).get("queues", "/", queue)["messages"]
    if not arguments:
        count = channel.queue_declare(queue, passive=True).method.message_count
        channel.basic_qos(prefetch_count=0)
    channel.basic_consume(queue, take, arguments=arguments)
    wait_until(lambda: len(found) >= count, channel.connection)
    wait_until(lambda: True, channel.connection)
    clients.close()
    return found


def records(data: Path, queue: str) -> dict[int, dict[str, Any]]:
    """What is stored of a queue, by offset; not whether it is settled."""
    rows = told("log", "dump", data, "--queue", queue, "--limit", 1_000_000, "--bodies")
    return {row["offset"]: {**row, "settled": None} for row in rows}


class Load:
    """A publisher of numbered messages to three queues, and a consumer of one of them.

    Attributes:
        confirmed, acked: numbers, in order.
        longest: seconds between two confirms.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._stopping = asyncio.Event()
        self.confirmed: list[int] = []
        self.acked: list[int] = []
        self.longest = 0.0

    async def run(self) -> None:
        async with await aio_pika.connect(self._url) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=50)
            events = await channel.declare_exchange("events", ExchangeType.FANOUT, durable=True)
            for name, kind in (("kept", "classic"), ("worked", "classic"), ("audit", "stream")):
                queue = await channel.declare_queue(
                    name, durable=True, arguments={"x-queue-type": kind}
                )
                await queue.bind(events)
            worked = await channel.get_queue("worked")
            await worked.consume(self._ack)
            await asyncio.gather(*(self._publish(events, each) for each in range(IN_FLIGHT)))

    async def _publish(self, events: aio_pika.abc.AbstractExchange, number: int) -> None:
        last = time.monotonic()
        while not self._stopping.is_set():
            body = b"%d " % number + BODY
            message = Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await events.publish(message, "")
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last), now
            self.confirmed.append(number)
            number += IN_FLIGHT

    async def _ack(self, message: aio_pika.abc.AbstractIncomingMessage) -> None:
        await message.ack()
        self.acked.append(int(message.body.split(b" ")[0]))

    async def has_confirmed(self, count: int) -> None:
        while len(self.confirmed) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        self._stopping.set()


async def test_all_that_was_confirmed_is_in_a_backup_under_load(
    start: Start, tmp_path: Path
) -> None:
    broker = start(**UNDER_LOAD)
    ann = ManagementDoor(broker).add_user("ann", "monitoring")
    load = Load(broker.url)
    running = asyncio.create_task(load.run())
    async with asyncio.timeout(60):
        await load.has_confirmed(1_000)
    before = set(load.confirmed)
    target = tmp_path / "target"
    (done,) = await asyncio.to_thread(
        told, "backup", target, "--name", "one", "--data-dir", broker.data_dir
    )
    during = len(load.confirmed) - len(before)
    not_acked = before - set(load.acked)
    load.stop()
    await running
    assert during > 100
    assert load.longest < STALL_SECONDS_MAX
    (listed,) = told("backup", "list", target)
    assert (listed["name"], listed["state"]) == ("one", "whole")
    assert listed["position"] == done["position"]
    again = tmp_path / "again"
    (restored,) = await asyncio.to_thread(told, "restore", target, again)
    assert restored["damages"] == 0
    assert restored["partitions"] == 3
    broker.terminate()
    # The digest: the same records at the same offsets, as far as the backup goes.
    for queue in ("kept", "audit"):
        source, copied = records(broker.data_dir, queue), records(again, queue)
        assert copied
        assert copied == {offset: source[offset] for offset in copied}
    second = start("again")
    kept, worked = numbers(second, "kept"), numbers(second, "worked")
    for found in (kept, worked):
        assert len(set(found)) == len(found)  # once
        for publisher in range(IN_FLIGHT):  # in the order of each publisher
            own = [each for each in found if each % IN_FLIGHT == publisher]
            assert own == sorted(own)
    assert set(kept) >= before
    assert set(worked) >= not_acked
    assert len(numbers(second, "audit", **{"x-stream-offset": "first"})) >= len(before)
    assert ManagementDoor(second, ann).get("whoami")["tags"] == ["monitoring"]
    bound = ManagementDoor(second).get("exchanges", "/", "events", "bindings", "source")
    assert {each["destination"] for each in bound} == {"kept", "worked", "audit"}


def test_a_killed_broker_leaves_no_backup_and_holds_nothing(start: Start, tmp_path: Path) -> None:
    broker, target = start(**SLOWLY), tmp_path / "target"
    fill(broker)
    command = begin_backup(broker, target, "one")
    wait_until(lambda: (target / "backups" / "one").exists())
    assert any((broker.data_dir / "copies").iterdir())
    broker.kill()
    assert command.wait(60) == 2
    assert told("backup", "list", target)[0]["state"] == "not finished"
    refused = run("restore", target, tmp_path / "again", "--name", "one")
    assert refused.returncode == 1
    assert "no finished backup 'one' in" in refused.stderr
    assert not (tmp_path / "again").exists()
    broker.start()
    assert not any((broker.data_dir / "copies").iterdir())
    told("backup", target, "--name", "one", "--data-dir", broker.data_dir)
    told("restore", target, tmp_path / "again")
    assert numbers(start("again"), "kept") == list(range(FILLED))


def test_a_killed_command_ends_its_backup(start: Start, tmp_path: Path) -> None:
    broker, target = start(ROUTELOG_BACKUP_BYTES_PER_SECOND="100000"), tmp_path / "target"
    fill(broker)
    command = begin_backup(broker, target, "one")
    wait_until(lambda: (target / "backups" / "one").exists())
    command.send_signal(signal.SIGKILL)
    command.wait()
    # By the target: its copy in the data directory may not have begun, and to ask how it goes would keep it.
    wait_until(lambda: told("backup", "list", target) == [])
    wait_until(lambda: not any((broker.data_dir / "copies").iterdir()))
    state = ManagementDoor(broker).get("backup")
    assert (state["state"], state["error"]) == ("failed", "its client has gone")


def test_an_interrupted_command_cancels_its_backup(start: Start, tmp_path: Path) -> None:
    broker, target = start(ROUTELOG_BACKUP_BYTES_PER_SECOND="100000"), tmp_path / "target"
    fill(broker)
    command = begin_backup(broker, target, "one")
    wait_until(lambda: (target / "backups" / "one").exists())
    command.send_signal(signal.SIGINT)
    assert command.wait(60) != 0
    wait_until(lambda: ManagementDoor(broker).get("backup")["state"] == "failed")
    assert ManagementDoor(broker).get("backup")["error"] == "it was cancelled"


def test_damage_is_found_and_refused(start: Start, tmp_path: Path) -> None:
    broker, target = start(), tmp_path / "target"
    fill(broker)
    for name in ("one", "two"):
        told("backup", target, "--name", name, "--data-dir", broker.data_dir)
    assert run("backup", "verify", target).returncode == 0
    (own,) = (target / "backups" / "two").glob("files-*")
    content = bytearray(own.read_bytes())
    content[len(content) // 2] ^= 0x10
    own.write_bytes(content)
    found = run("backup", "verify", target)
    assert found.returncode == 1
    assert "is damaged" in found.stdout
    assert run("backup", "verify", target, "one").returncode == 0
    refused = run("restore", target, tmp_path / "again")
    assert refused.returncode == 1
    assert "is damaged" in refused.stderr
    assert not (tmp_path / "again").exists()
    told("restore", target, tmp_path / "again", "--name", "one")
    refused = run("restore", target, tmp_path / "again", "--name", "one")
    assert refused.returncode == 1
    assert "is not empty" in refused.stderr


def test_a_bucket_keeps_backups(start: Start, tmp_path: Path, server: ObjectServer) -> None:
    broker, target = start(), server.url("backups-of-orders")
    fill(broker)
    told("backup", target, "--name", "one", "--data-dir", broker.data_dir)
    (second,) = told("backup", target, "--name", "two", "--data-dir", broker.data_dir)
    assert second["bytes_kept"] > second["bytes_total"] // 3
    assert "secret" not in json.dumps(second)
    assert [each["name"] for each in told("backup", "list", target)] == ["one", "two"]
    assert run("backup", "verify", target).returncode == 0
    told("restore", target, tmp_path / "again", "--name", "two")
    assert numbers(start("again"), "kept") == list(range(FILLED))


def test_only_an_administrator_makes_backups(start: Start, tmp_path: Path) -> None:
    broker = start()
    eve = ManagementDoor(broker, ManagementDoor(broker).add_user("eve", "monitoring"))
    target = f"file://{tmp_path}/target"
    for method in ("POST", "GET", "DELETE"):
        assert eve.ask(method, "backup", body={"target": target})[0] == 401
    assert not (tmp_path / "target").exists()
    for data in (tmp_path / "data", tmp_path / "nowhere"):
        refused = run("backup", tmp_path / "file.txt", "--name", "../up", "--data-dir", data)
        assert refused.returncode == (1 if data.exists() else 2), refused.stderr
