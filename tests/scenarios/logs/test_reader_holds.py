"""What a log keeps for a named reader beyond its retention, and what happens when that is too much."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.broker_process import ROOT, BrokerProcess
from support.compressed_queue import SMALL_SEGMENTS, publish
from support.log_service import http_logs, wait_until_stored
from support.management_door import ManagementDoor
from support.pika_client import Clients
from support.waiting import wait_until

from routelog.spark_bridge.logs.errors import HoldLapsed
from routelog.spark_bridge.logs.readable_logs import LogPartition

pytestmark = pytest.mark.differs_from_rabbitmq("has no such readers")

AUDIT = LogPartition("/", "audit", 0)
BODIES = [Random(number).randbytes(5_000) for number in range(120)]  # some 600 KB: ten segments
STREAM = {"x-queue-type": "stream", "x-max-length-bytes": 70_000}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    environment = {
        **SMALL_SEGMENTS,
        "ROUTELOG_RETENTION_SECONDS": "0.1",
        "ROUTELOG_READER_HOLD_BYTES_MAX": "300000",
    }
    process = BrokerProcess(tmp_path / "data", environment).start()
    yield process
    process.stop()


def fill(broker: BrokerProcess, bodies: list[bytes], **arguments: Any) -> None:
    clients = Clients(broker.url)
    publish(clients.channel(), "audit", bodies, **arguments)
    clients.close()


def report(broker: BrokerProcess, offset: int, name: str = "lake", **more: Any) -> tuple[int, Any]:
    door = ManagementDoor(broker)
    body = {"offsets": {"0": offset}, **more}
    return door.ask("PUT", "logs", "/", "audit", "readers", name, body=body)


def reader(broker: BrokerProcess, name: str = "lake") -> dict[str, Any]:
    """The row of a reader, with that of its partition."""
    rows = ManagementDoor(broker).get("logs", "/", "audit", "readers")
    row = next(each for each in rows if each["name"] == name)
    return {**row, **row["partitions"][0]}


def first_kept(broker: BrokerProcess) -> int:
    return http_logs(broker).extents(AUDIT)[0].start


def test_a_log_is_kept_for_a_reader_up_to_its_hold(broker: BrokerProcess) -> None:
    fill(broker, BODIES[:1], **STREAM)
    assert report(broker, 0)[0] == 204
    assert report(broker, 0, "small", hold_bytes=100_000)[0] == 204
    fill(broker, BODIES[1:41], **STREAM)  # 200 KB: below the one hold, above the other
    wait_until_stored(http_logs(broker), AUDIT, 41)
    wait_until(lambda: reader(broker, "small")["lapsed"] is not None)
    assert first_kept(broker) == 0, "the other one holds it"
    small = reader(broker, "small")
    assert small["lapsed"][1] == small["next_offset"] > 0
    lake = reader(broker)
    assert (lake["lapsed"], lake["next_offset"], lake["hold_bytes"]) == (None, 0, 300_000)
    assert lake["bytes_behind"] > 200_000 > small["bytes_behind"]
    fill(broker, BODIES[41:], **STREAM)
    wait_until_stored(http_logs(broker), AUDIT, len(BODIES))
    wait_until(lambda: first_kept(broker) > 0)
    kept = sum(each.bytes_estimate for each in http_logs(broker).extents(AUDIT))
    assert kept <= 300_000 + 2 * 65_536 + 70_000, "the hold, and what retention keeps"
    end = reader(broker)["lapsed"][1]
    assert f"to {end - 1} of partition 0 are not held any more: they are more than 300000" in (
        broker.log_text()
    )


def test_a_reader_hears_what_it_has_lost_and_goes_on_behind(broker: BrokerProcess) -> None:
    fill(broker, BODIES[:1], **STREAM)
    report(broker, 0)
    fill(broker, BODIES[1:], **STREAM)
    wait_until_stored(http_logs(broker), AUDIT, len(BODIES))
    wait_until(lambda: first_kept(broker) > 5)
    status, answer = report(broker, 5)
    assert (status, answer["error"]) == (409, "lapsed")
    assert "offsets 5 to " in answer["reason"]
    assert "it holds 300000 bytes" in answer["reason"]
    with pytest.raises(HoldLapsed, match="offsets 5 to "):
        http_logs(broker).report("lake", {AUDIT: 5})
    assert report(broker, 100)[0] == 204
    assert reader(broker)["next_offset"] == 100
    assert reader(broker)["lapsed"] is not None


def test_a_hold_is_the_readers_own_choice_up_to_a_maximum(broker: BrokerProcess) -> None:
    fill(broker, BODIES[:10], **STREAM)
    wait_until_stored(http_logs(broker), AUDIT, 10)
    for wrong in (-1, 300_001, "all"):
        status, answer = report(broker, 0, hold_bytes=wrong)
        assert status == 400
        assert "hold_bytes" in answer["reason"]
    assert report(broker, 0, hold_bytes=250_000)[0] == 204
    assert reader(broker)["hold_bytes"] == 250_000
    assert report(broker, 0, hold_bytes=200_000)[0] == 204
    broker.kill()
    broker.start()
    assert reader(broker)["hold_bytes"] == 200_000
    fill(broker, BODIES[10:], **STREAM)
    wait_until(lambda: reader(broker)["lapsed"] is not None)


def test_a_group_with_consumers_has_no_limit(broker: BrokerProcess) -> None:
    fill(broker, BODIES[:1], **STREAM)
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.basic_qos(prefetch_count=1)
    arguments = {"x-group": "billing", "x-stream-offset": "first"}
    channel.basic_consume("audit", lambda *_: None, arguments=arguments)
    fill(broker, BODIES[1:], **STREAM)
    wait_until_stored(http_logs(broker), AUDIT, len(BODIES))
    assert first_kept(broker) == 0
    assert reader(broker, "billing")["hold_bytes"] is None
    clients.close()


def test_readers_are_listed_and_deleted_by_command(broker: BrokerProcess) -> None:
    fill(broker, BODIES[:10], **STREAM)
    assert report(broker, 0, hold_bytes=100_000)[0] == 204
    listed = routelog(broker, "list", "audit")
    assert listed.splitlines()[0].split()[:4] == ["name", "partition", "next", "offset"]
    assert "lake" in listed
    assert "100000" in listed
    routelog(broker, "delete", "audit", "lake")
    assert ManagementDoor(broker).get("logs", "/", "audit", "readers") == []


def routelog(broker: BrokerProcess, *words: str) -> str:
    command = [sys.executable, "-m", "routelog", "reader", *words]
    done = subprocess.run(
        [*command, "--data-dir", str(broker.data_dir)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
