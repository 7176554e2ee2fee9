"""`routelog export` as a program: over HTTP, once and continuously, beside a broker that runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BrokerFactory
from deltalake import DeltaTable
from support.compressed_queue import ORDERS, SMALL_SEGMENTS, publish
from support.log_service import http_logs, service_url, wait_until_stored
from support.pika_client import Clients
from support.waiting import wait_until
from unit.spark_bridge.log_files import LogFiles, records

from routelog.spark_bridge.logs.readable_logs import LogPartition

pytestmark = pytest.mark.interop

COUNT = len(ORDERS)
PROGRAM = (sys.executable, "-m", "routelog", "export")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def exported(table: Path) -> list[int]:
    if not (table / "_delta_log").exists():
        return []
    found = DeltaTable(table).to_pyarrow_dataset().to_table(columns=["offset"])
    return sorted(found["offset"].to_pylist())


def test_a_table_follows_its_queue(fresh_broker: BrokerFactory, tmp_path: Path) -> None:
    broker = fresh_broker(**SMALL_SEGMENTS)
    channel = Clients(broker.url).connect().channel()
    publish(channel, "orders", **{"x-retention": "1h"})
    wait_until_stored(http_logs(broker), LogPartition("/", "orders", 0), COUNT)
    table = tmp_path / "table"
    place = ("--queue", "orders", "--columns", "id long, customer string")
    # The address has a password: it may come from the environment, which others do not see.
    environment = {**os.environ, "ROUTELOG_URL": service_url(broker)}
    following = subprocess.Popen(
        [*PROGRAM, "run", str(table), *place, "--follow", "--every", "0.2", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: len(exported(table)) == COUNT)
        for body in ORDERS[:10]:
            channel.basic_publish("", "orders", body)
        wait_until(lambda: len(exported(table)) == COUNT + 10)
        following.send_signal(signal.SIGTERM)
        output, _ = following.communicate(timeout=30)
    finally:
        following.kill()
    assert following.returncode == 0
    assert sum(json.loads(line)["records"] for line in output.splitlines()) == COUNT + 10
    assert exported(table) == list(range(COUNT + 10))
    ids = DeltaTable(table).to_pyarrow_dataset().to_table(columns=["id", "_corrupt"])
    assert sorted(ids["id"].to_pylist()) == sorted([*range(COUNT), *range(10)])
    assert ids["_corrupt"].null_count == COUNT + 10

    again = run("run", str(table), "--path", str(broker.data_dir), *place, "--json")
    assert (again.returncode, json.loads(again.stdout)["records"]) == (0, 0), again.stderr
    compacted = run("compact", str(table), "--all", "--json")
    assert json.loads(compacted.stdout)["files_added"] == 1, compacted.stderr
    assert (
        json.loads(run("vacuum", str(table), "--hours", "0", "--json").stdout)["files_removed"] > 1
    )
    assert exported(table) == list(range(COUNT + 10))


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["--queue", "q"], 2, "give the data directory, --url or --remote"),
        (["--path", "/nowhere", "--queue", "q"], 2, "no broker's data directory"),
        (["--path", "{data}"], 2, "give either queues or --pattern"),
        (["--path", "{data}", "--queue", "q"], 2, "no log of 'q' in the vhost"),
        (
            ["--path", "{data}", "--pattern", ".*", "--columns", "x"],
            2,
            "--columns: expected a type",
        ),
        (
            ["--path", "{data}", "--pattern", ".*", "--body-format", "x"],
            2,
            "expected json or msgpack",
        ),
        (["--path", "{data}", "--pattern", ".*", "--transaction-bytes", "x"], 2, "expected bytes"),
        (["--url", "http://a:b@127.0.0.1:1", "--pattern", ".*"], 1, "cannot be reached"),
    ],
)
def test_what_cannot_be_exported_is_said_in_one_line(
    arguments: list[str], status: int, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "logs" / "%2F").mkdir(parents=True)
    filled = [each.replace("{data}", str(tmp_path)) for each in arguments]
    done = run("run", str(tmp_path / "table"), *filled)
    assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr
    assert reason in done.stderr
    assert "a:b" not in done.stderr


def test_a_queue_that_lost_records_is_named_and_the_others_are_exported(tmp_path: Path) -> None:
    for queue in ("audit", "orders"):
        LogFiles(tmp_path, queue).segment(0, (0, records([b"a", b"b"])))
    place = (str(tmp_path / "table"), "--path", str(tmp_path), "--pattern", ".*", "--json")
    assert run("run", *place).returncode == 0
    for queue in ("audit", "orders"):
        directory = tmp_path / "logs" / "%2F" / f"{queue}-0"
        shutil.rmtree(directory)
        LogFiles(tmp_path, queue).segment(4 if queue == "audit" else 2, (4, records([b"c"])))
    done = run("run", *place)
    assert (done.returncode, json.loads(done.stdout)["records"]) == (1, 1), done.stderr
    (line,) = done.stderr.splitlines()
    assert "offsets 2 to 3 of partition 0 of queue 'audit' in vhost '/' are not in the log" in line
    assert exported(tmp_path / "table") == [0, 0, 1, 1, 4]
