"""Remote storage in a cluster: whoever leads copies and removes, and no record goes when a leader is killed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pika
import pytest
from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers, mirrored_brokers
from cluster.brokers.test_standby_process import SECRET, FollowProcess, command, until_followed
from support.broker_process import COMMAND_VARIABLE, BrokerProcess
from support.compressed_queue import SMALL_SEGMENTS
from support.log_service import http_logs
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT
from support.ports import free_port
from support.waiting import wait_until

from routelog.log_backend import SystemDisk
from routelog.log_backend.remote.bucket_address import open_bucket
from routelog.log_backend.remote.remote_segment import stored_segments, whole_segments
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.object_logs import ObjectLogs
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange, ReadableLogs
from routelog.spark_bridge.logs.tiered_logs import TieredLogs

AUDIT = LogPartition("/", "audit", 0)
BODIES = [b"%06d" % number + bytes(19_994) for number in range(120)]  # 40 segments, 2.4 MB
LOCAL_BYTES = 150_000
MANAGEMENT_FILE = "management.json"  # in the data directory of a node that takes clients
STREAM = {
    "x-queue-type": "stream",
    "x-remote-storage": True,
    "x-local-max-length-bytes": LOCAL_BYTES,
}
SMALL = {
    **SMALL_SEGMENTS,
    "ROUTELOG_JOURNAL_FILE_BYTES": "1048576",
    "ROUTELOG_JOURNAL_FILES_MAX": "2",
    "ROUTELOG_RETENTION_SECONDS": "0.1",
}


# What a client sees when another node leads, as one may on a busy machine.
CHANGES = (pika.exceptions.AMQPError, OSError)


class Stage:
    """The nodes of a cluster with one bucket, each of which can be stopped at a step of remote storage."""

    def __init__(self, cluster: MirroredBrokers, place: Path, held: Path) -> None:
        self.cluster = cluster
        self.url = f"file://{place}"
        self.bucket = open_bucket(self.url, SystemDisk())
        self._held = held
        self._late: list[tuple[str, bytes]] = []

    def leader(self) -> BrokerProcess:
        """The node that takes clients, as soon as one does."""
        found: list[BrokerProcess] = []

        def led() -> bool:
            brokers = self.cluster.brokers.values()
            found[:] = [each for each in brokers if (each.data_dir / MANAGEMENT_FILE).exists()]
            return len(found) == 1

        wait_until(led)
        return found[0]

    def kill(self, broker: BrokerProcess) -> None:
        """Kill a node; it does not lead any more."""
        broker.kill()
        (broker.data_dir / MANAGEMENT_FILE).unlink(missing_ok=True)

    def publish(self, end: int) -> None:
        """Publish the bodies up to a number; when another node leads meanwhile, go on there."""
        while True:
            try:
                leader = self.leader()
                status, log = ManagementDoor(leader).ask("GET", "logs", "/", "audit", "0")
                publish(leader, BODIES[log["next_offset"] if status == 200 else 0 : end])
                return
            except CHANGES:
                continue

    def kill_leader(self, step: str, end: int) -> set[str]:
        """Publish, kill the leader at a step, and start it again.

        Returns:
            The objects that it left, and that are of no whole segment.
        """
        files = {name: self._held / f"{name}@test" for name in NODES}
        for file in files.values():
            file.write_text(step)
        self.publish(end)
        wait_until(lambda: any(self._held.glob("*.reached")))
        left = self.unfinished()
        waiting = next(self._held.glob("*.reached"))
        path, _, content = waiting.read_bytes().partition(b"\n")
        self._late.append((path.decode(), content))
        reached = waiting.name.partition("@")[0]
        self.kill(self.cluster.brokers[reached])
        for file in (*files.values(), *self._held.glob("*.reached")):
            file.unlink()
        self.cluster.brokers[reached].start()
        return left

    def carry_out_late(self) -> str:
        """The bucket carries out the request that waited when the last leader was killed; its object's name."""
        path, content = self._late[-1]
        self.bucket.write(path, [content], len(content))
        return path.rpartition("/")[2]

    def unfinished(self) -> set[str]:
        """Names of objects that are of no whole segment."""
        objects = self.bucket.objects(self.folder())
        whole = whole_segments(objects)
        return set(objects) - {n for each in whole for n in (each.content_name, each.index_name)}

    def folder(self) -> str:
        """Of the stream."""
        (number,) = self.bucket.folders("%2F/audit-0")
        return f"%2F/audit-0/{number}"

    def until_copied(self) -> None:
        """Wait until the leader has copied what it may, and let go of it."""

        def done() -> bool:
            try:
                return has_copied(self.leader())
            except CHANGES:
                return False

        wait_until(done)

    def check_log(self, end: int) -> None:
        """The bucket has with the leader's HTTP API all that was published."""
        leader = self.leader()
        wait_until(lambda: http_logs(leader).extents(AUDIT)[-1].end == end)
        assert bodies(TieredLogs(ObjectLogs(self.url), http_logs(leader))) == BODIES[:end]

    def check_readers(self, end: int) -> None:
        """Each node's disk has with the bucket all that was published; so has the leader's HTTP API."""
        self.check_log(end)
        objects, leader = ObjectLogs(self.url), self.leader()
        for broker in self.cluster.brokers.values():
            near = LogDirectory(broker.data_dir)
            wait_until(lambda: near.extents(AUDIT)[-1].end == end)  # noqa: B023
            assert first_on_disk(broker) > 0
            assert bodies(TieredLogs(objects, near)) == BODIES[:end]
        assert consumed(leader, end) == BODIES[:end]


def publish(broker: BrokerProcess, bodies: list[bytes]) -> None:
    """Publish to the stream, each body confirmed."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_declare("audit", durable=True, arguments=STREAM)
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", "audit", body, PERSISTENT)
    connection.close()


def has_copied(broker: BrokerProcess) -> bool:
    """Whether a leader has copied all but the newest segment, and let go of what it may."""
    log = ManagementDoor(broker).get("logs", "/", "audit", "0")
    on_disk = sum(size for _, _, size in log["segments"])
    is_copied = log["remote"] and log["remote"]["end_offset"] == log["segments"][-1][0]
    return bool(is_copied) and on_disk <= LOCAL_BYTES


def until_let_go(broker: BrokerProcess) -> None:
    """Wait until a node has no more on its disk than the leader may have, and two segments that it began."""

    def done() -> bool:
        sizes = [each.bytes_estimate for each in LogDirectory(broker.data_dir).extents(AUDIT)]
        return sum(sizes) <= LOCAL_BYTES + 2 * 65_536

    wait_until(done)


def first_on_disk(broker: BrokerProcess) -> int:
    """The first offset in a node's directory."""
    return LogDirectory(broker.data_dir).extents(AUDIT)[0].start


def consumed(broker: BrokerProcess, count: int) -> list[bytes]:
    """What a consumer gets from the oldest message on."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=10)
    found = []
    for method, _, body in channel.consume("audit", arguments={"x-stream-offset": "first"}):
        channel.basic_ack(method.delivery_tag)
        found.append(body)
        if len(found) == count:
            break
    connection.close()
    return found


def bodies(store: ReadableLogs) -> list[bytes]:
    """All that can be read."""
    extents = store.extents(AUDIT)
    assert extents[0].start == 0
    return [
        bytes(batch.records.body(offset - batch.base_offset))
        for each in extents
        for batch in store.read(OffsetRange(AUDIT, each.start, each.end, 0))
        for offset in range(max(batch.base_offset, each.start), min(batch.end_offset, each.end))
    ]


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that says where nodes stop."""
    program = Path(__file__).with_name("held_bucket_broker.py")
    monkeypatch.setenv(COMMAND_VARIABLE, f"{sys.executable} {program}")
    folder = tmp_path / "held"
    folder.mkdir()
    return folder


@pytest.mark.long
def test_no_record_goes_when_leaders_are_killed_between_the_steps_of_a_copy(
    tmp_path: Path, held: Path
) -> None:
    place = tmp_path / "bucket"
    settings = {**SMALL, "ROUTELOG_REMOTE_STORAGE": f"file://{place}"}
    with mirrored_brokers(tmp_path, ROUTELOG_TEST_HELD=str(held), **settings) as cluster:
        stage = Stage(cluster, place, held)
        stage.publish(12)
        stage.until_copied()

        (content,) = stage.kill_leader("before .segment", 30)
        assert content.endswith(".log")
        stage.until_copied()
        assert content not in stage.bucket.objects(stage.folder())
        late_index = stage.carry_out_late()
        stage.check_log(30)

        assert stage.kill_leader("before .log", 40) <= {late_index}
        stage.until_copied()
        late_content = stage.carry_out_late()
        assert late_content in stage.unfinished()
        stage.check_log(40)

        # The segment is there, and nothing else says so.
        assert stage.kill_leader("behind .segment", 50) <= {late_index, late_content}
        stage.until_copied()
        stage.kill_leader("removing logs/%2F/audit-0/", 70)  # it is committed that it may go
        stage.until_copied()

        assert not {late_index, late_content} & {*stage.bucket.objects(stage.folder())}
        stage.check_readers(70)
        for broker in cluster.brokers.values():
            until_let_go(broker)
        epochs = {each.epoch for each in stored_segments(stage.bucket.objects(stage.folder()))}
        assert len(epochs) >= 3

        # A node without its disk takes a copy, which has no more than the leader's disk.
        wiped = next(each for each in cluster.brokers.values() if each is not stage.leader())
        wiped.kill()
        shutil.rmtree(wiped.data_dir)
        stage.publish(120)
        wiped.start()
        cluster.until_led(in_sync=3)
        stage.until_copied()
        assert "checkpoint is whole" in wiped.log_text()
        stage.check_readers(120)
        told, code = cluster.ask("verify")
        assert code == 0, told


def read_in_group(broker: BrokerProcess, seen: dict[int, bytes], count: int) -> None:
    """Read with a group from the oldest message on, until so many were seen, each acknowledged."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=3)
    arguments = {"x-group": "g", "x-stream-offset": "first"}
    for method, properties, body in channel.consume("audit", arguments=arguments):
        seen[int(properties.headers["x-stream-offset"])] = body
        channel.basic_ack(method.delivery_tag)
        if len(seen) == count:
            break
    connection.close()


@pytest.mark.long
def test_a_group_reads_on_from_the_bucket_when_its_leader_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "bucket"
    settings = {**SMALL, "ROUTELOG_REMOTE_STORAGE": f"file://{place}"}
    with mirrored_brokers(tmp_path, **settings) as cluster:
        stage = Stage(cluster, place, tmp_path)
        stage.publish(60)
        stage.until_copied()
        seen: dict[int, bytes] = {}
        for count in (15, 30, 60):
            while len(seen) < count:
                try:
                    leader = stage.leader()
                    read_in_group(leader, seen, count)
                except CHANGES:
                    continue
            if count < 60:
                stage.kill(leader)
                leader.start()
        assert sorted(seen.items()) == list(enumerate(BODIES[:60]))


def test_a_promoted_standby_goes_on_with_the_bucket(tmp_path: Path) -> None:
    port = free_port()
    url = f"file://{tmp_path}/bucket"
    settings = {**SMALL, "ROUTELOG_REMOTE_STORAGE": url, "ROUTELOG_CLUSTER_SECRET": SECRET}
    node = BrokerProcess(
        tmp_path / "a", {**settings, "ROUTELOG_STANDBY_LISTEN": f"127.0.0.1:{port}"}
    )
    promoted = BrokerProcess(tmp_path / "b", settings)
    node.start()
    follow = FollowProcess(port, tmp_path / "b", tmp_path / "follow.log", **settings)
    try:
        publish(node, BODIES[:30])
        wait_until(lambda: has_copied(node))
        until_followed(node, 0)
        until_let_go(promoted)
        node.kill()
        follow.end()
        done = command("promote", "--data-dir", str(promoted.data_dir))
        assert done.returncode == 0, done.stderr
        promoted.start()
        publish(promoted, BODIES[30:60])
        near = LogDirectory(promoted.data_dir)
        wait_until(lambda: near.extents(AUDIT)[-1].end == 60 and has_copied(promoted))
        assert bodies(TieredLogs(ObjectLogs(url), near)) == BODIES[:60]
    finally:
        for each in (node, follow, promoted):
            each.stop()
