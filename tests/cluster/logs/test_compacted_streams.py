"""Compacted streams of nodes: a reader of any node, or of its files, finds the last value of each key only."""

from __future__ import annotations

import copy
import random
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pika
import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from cluster.brokers.test_brokers import others
from cluster.brokers.test_standby_process import (
    SECRET,
    FollowProcess,
    command,
    until_followed_behind,
)
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT
from support.ports import free_port
from support.waiting import WAIT_SECONDS, wait_until

from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange

TABLE = LogPartition("/", "table", 0)
SETTINGS = {
    "ROUTELOG_SEGMENT_BYTES": "65536",
    "ROUTELOG_FLUSH_SECONDS": "0.02",
    "ROUTELOG_MEMORY_TAIL_BYTES": "1048576",  # of what is in memory, readers get all
}
ARGUMENTS = {
    "x-queue-type": "stream",
    "x-cleanup-policy": "compact",
    "x-delete-retention": "0s",  # deletions go with the second pass
}
SEED = 20_267
KEYS = 12
KILLS = 4
# What a client sees when another node leads.
CHANGES = (pika.exceptions.AMQPError, OSError)

Record = tuple[str, bytes]


class Table:
    """A stream of keys and values, and what its readers may find.

    Attributes:
        leader: the broker that takes clients.
        possible: of each key, the last confirmed value, and those behind it. Empty: it is deleted.
        published: how many were, confirmed or not.
    """

    def __init__(self, leader: Callable[[], BrokerProcess]) -> None:
        self.possible: dict[str, list[bytes]] = {}
        self.published = 0
        self.leader = leader
        self._chance = random.Random(SEED)
        self._records: dict[int, Record] = {}  # by offset, as readers got them

    def publish(self, is_enough: Callable[[], bool]) -> None:
        """Publish until something has happened, each message confirmed; go on where another node leads."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_enough():
            with suppress(*CHANGES):
                self._publish(is_enough, deadline)

    def _publish(self, is_enough: Callable[[], bool], deadline: float) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self.leader().url))
        channel = connection.channel()
        channel.queue_declare("table", durable=True, arguments=ARGUMENTS)
        channel.queue_bind("table", "amq.topic", "key.#")
        channel.confirm_delivery()
        while not is_enough():
            assert time.monotonic() < deadline, f"{self.published} messages, and it did not happen"
            self.published += 1
            key = f"key.{self._chance.randrange(KEYS)}"
            is_deletion = self._chance.random() < 0.1
            body = b"" if is_deletion else b"%d" % self.published + bytes(3_000)
            self.possible.setdefault(key, [b""]).append(body)
            channel.basic_publish("amq.topic", key, body, PERSISTENT)
            self.possible[key] = [body]
        connection.close()

    def check(self) -> int:
        """Read from the first message on; returns how many there are."""
        found: dict[int, Record] = {}
        while not found:
            with suppress(*CHANGES):
                found = self._read()
        self._check(found)
        return len(found)

    def check_files(self, broker: BrokerProcess) -> None:
        """Read a node's own files, as soon as they have what readers got; nobody publishes."""
        files, end = LogDirectory(broker.data_dir), max(self._records) + 1
        wait_until(lambda: files.extents(TABLE)[-1].end == end)
        everything = OffsetRange(TABLE, files.extents(TABLE)[0].start, end, 0)
        self._check(
            {
                batch.base_offset + index: (
                    batch.records.routing_key(index).decode(),
                    bytes(batch.records.body(index)),
                )
                for batch in files.read(everything)
                for index in range(batch.end_offset - batch.base_offset)
            }
        )

    def _check(self, found: dict[int, Record]) -> None:
        # Each offset has the record that it had before, and the last value of each key is a possible one.
        assert [*found] == sorted(found)
        for offset, record in found.items():
            assert self._records.setdefault(offset, record) == record, offset
        last = dict(found.values())
        for key, values in self.possible.items():
            assert last.get(key, b"") in values, key

    def _read(self) -> dict[int, Record]:
        connection = pika.BlockingConnection(pika.URLParameters(self.leader().url))
        channel = connection.channel()
        channel.queue_bind("table", "amq.topic", "end")
        channel.confirm_delivery()
        self.published += 1
        end = b"%d" % self.published
        channel.basic_publish("amq.topic", "end", end, PERSISTENT)
        channel.basic_qos(prefetch_count=100)
        found: dict[int, Record] = {}
        arguments = {"x-stream-offset": "first"}
        for method, properties, body in channel.consume("table", arguments=arguments):
            found[int(properties.headers["x-stream-offset"])] = method.routing_key, body
            if body == end:
                break
            channel.basic_ack(method.delivery_tag)
        connection.close()
        return found


def compacted(broker: BrokerProcess) -> set[str]:
    """Names of compacted segments."""
    return {path.name for path in broker.data_dir.glob("logs/*/table-0/*.*.log")}


def compacts_on(*brokers: BrokerProcess) -> Callable[[], bool]:
    """Whether each has compacted segments that it does not have now."""
    before = [compacted(broker) for broker in brokers]
    return lambda: all(
        compacted(broker) - names for broker, names in zip(brokers, before, strict=True)
    )


def check_nodes(cluster: MirroredBrokers, table: Table) -> None:
    """All nodes have the same, but for what some have compacted: that is last values, too."""
    cluster.until_led(in_sync=3)
    told, code = cluster.ask("verify")
    assert (told["equal"], told["complete"], code) == (True, True, 0), told
    for broker in cluster.brokers.values():
        table.check_files(broker)


@pytest.mark.long
def test_a_new_leader_compacts_on_where_others_have_not_compacted(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path, **SETTINGS) as cluster:
        table = Table(cluster.leader)
        leader = cluster.leader()
        lazy, other = others(cluster, leader)
        lazy.kill()
        shutil.rmtree(lazy.data_dir / "compacting", ignore_errors=True)
        (lazy.data_dir / "compacting").touch()  # no folder: it cannot compact
        lazy.start()
        table.publish(compacts_on(leader, other))
        table.publish(compacts_on(leader, other))  # takes deletions
        table.check()
        assert not compacted(lazy)
        check_nodes(cluster, table)

        leader.kill()
        cluster.until_led(in_sync=2)
        table.check()
        leader.start()
        table.publish(compacts_on(leader, other))
        table.check()
        check_nodes(cluster, table)
        for node in (lazy, other, leader):
            name = f"{node.data_dir.name}@test"
            told, code = cluster.ask("transfer", "--to", name)
            assert code == 0, told
            found = table.check()
        assert found < table.published  # the last one was restarted, and reads its files
        check_nodes(cluster, table)


@pytest.mark.long
def test_leaders_that_are_killed_while_they_compact_lose_no_last_value(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with mirrored_brokers(tmp_path, **SETTINGS) as cluster:
        table = Table(cluster.leader)
        for round_ in range(KILLS):
            leader = cluster.leader()
            table.publish(compacts_on(leader))
            killer = threading.Timer(chance.uniform(0, 0.5), leader.kill)
            killer.start()
            table.publish(lambda: not killer.is_alive())  # noqa: B023
            table.check()
            if round_ == 1:
                shutil.rmtree(leader.data_dir)  # it takes a copy
            leader.start()
            cluster.until_led(in_sync=3)
            table.publish(compacts_on(*cluster.brokers.values()))
            table.check()
            check_nodes(cluster, table)


@pytest.mark.long
def test_a_promoted_standby_and_a_restored_backup_have_the_last_values(tmp_path: Path) -> None:
    port = free_port()
    settings = {**SETTINGS, "ROUTELOG_CLUSTER_SECRET": SECRET}
    node = BrokerProcess(
        tmp_path / "a", {**settings, "ROUTELOG_STANDBY_LISTEN": f"127.0.0.1:{port}"}
    )
    promoted, restored = (BrokerProcess(tmp_path / name, settings) for name in "bc")
    node.start()
    follow = FollowProcess(port, promoted.data_dir, tmp_path / "follow.log", **settings)
    table = Table(lambda: node)
    try:
        table.publish(compacts_on(node))
        table.publish(compacts_on(node, promoted))
        table.check()
        done = command("backup", str(tmp_path / "backup"), "--data-dir", str(node.data_dir))
        assert done.returncode == 0, done.stderr
        done = command("restore", str(tmp_path / "backup"), str(restored.data_dir))
        assert done.returncode == 0, done.stderr
        restored.start()
        restored_table = copy.deepcopy(table)
        restored_table.leader = lambda: restored
        restored_table.check()
        restored_table.publish(compacts_on(restored))
        restored_table.check()

        until_followed_behind(node, time.monotonic())
        table.check_files(promoted)
        node.kill()
        follow.end()
        done = command("promote", "--data-dir", str(promoted.data_dir))
        assert done.returncode == 0, done.stderr
        promoted.start()
        table.leader = lambda: promoted
        table.check()
        table.publish(compacts_on(promoted))
        assert table.check() < table.published
    finally:
        for each in (node, follow, promoted, restored):
            each.stop()
