"""Segments in remote storage: on a real S3-compatible server, and in a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

import pika
import pyarrow as pa
import pytest
from support.broker_process import BrokerFailed, BrokerProcess
from support.compressed_queue import SMALL_SEGMENTS, publish
from support.log_service import http_logs, wait_until_stored
from support.management_door import ManagementDoor
from support.object_server import ObjectServer
from support.pika_client import Clients
from support.waiting import WAIT_SECONDS, wait_until

from routelog.log_backend import SystemDisk
from routelog.log_backend.remote.bucket import Bucket
from routelog.log_backend.remote.bucket_address import open_bucket
from routelog.spark_bridge.columns.record_columns import arrow_batch
from routelog.spark_bridge.columns.row_group import row_groups
from routelog.spark_bridge.logs.errors import (
    BadOption,
    DamagedSegment,
    RecordsLost,
    StorageUnreachable,
)
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.object_logs import ObjectLogs
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange, ReadableLogs
from routelog.spark_bridge.logs.tiered_logs import TieredLogs

pytestmark = pytest.mark.differs_from_rabbitmq("has no such thing")

AUDIT = LogPartition("/", "audit", 0)
BODIES = [
    b"%06d" % number + Random(number).randbytes(5_000) for number in range(120)
]  # ten segments
BODY = pa.schema([("body", pa.binary())])
STREAM = {"x-queue-type": "stream", "x-remote-storage": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    started = ObjectServer(tmp_path_factory.mktemp("objects")).start()
    yield started
    started.stop()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Address of a folder."""
    return f"file://{tmp_path}/remote%20storage"


@pytest.fixture(params=["s3", "folder"])
def remote(request: pytest.FixtureRequest, folder: str) -> str:
    """Address of a place of its own, of either kind."""
    if request.param == "folder":
        return folder
    server: ObjectServer = request.getfixturevalue("server")
    return server.url(request.node.name.encode().hex())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Starts brokers with small segments."""
    started: list[BrokerProcess] = []

    def start(remote: str, name: str = "data", **settings: str) -> BrokerProcess:
        environment = {
            **SMALL_SEGMENTS,
            "ROUTELOG_RETENTION_SECONDS": "0.1",
            "ROUTELOG_REMOTE_STORAGE": remote,
            **settings,
        }
        process = BrokerProcess(tmp_path / name, environment)
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.stop()


def fill(
    broker: BrokerProcess, bodies: list[bytes], queue: str = "audit", **arguments: Any
) -> None:
    clients = Clients(broker.url)
    publish(clients.channel(), queue, bodies, **arguments)
    clients.close()


def wait_for_retention(broker: BrokerProcess) -> None:
    """Wait until the broker has looked what it may remove from the disk.

    It looks at all queues in one turn, and by now at what is old for another one that is filled now, and in
    which nothing happens then.
    """
    fill(broker, BODIES, "younger", **{"x-queue-type": "stream", "x-max-age": "1s"})
    wait_until(lambda: first_local(broker, "younger") > 0)


def bucket(remote: str) -> Bucket:
    return open_bucket(remote, SystemDisk())


def copied(broker: BrokerProcess) -> dict[str, int]:
    """What the broker says of remote storage."""
    found = ManagementDoor(broker).get("logs", "/", "audit", "0")["remote"]
    return dict(found) if found else {"first_offset": 0, "end_offset": 0, "segments": 0, "bytes": 0}


def first_local(broker: BrokerProcess, queue: str = "audit") -> int:
    return int(ManagementDoor(broker).get("logs", "/", queue, "0")["first_offset"])


def wait_until_copied(broker: BrokerProcess) -> None:
    """Wait until all but the newest segment are in remote storage."""

    def done() -> bool:
        log = ManagementDoor(broker).get("logs", "/", "audit", "0")
        return bool(log["remote"]) and log["remote"]["end_offset"] == log["segments"][-1][0] > 0

    wait_until(done)


def bodies_of(store: ReadableLogs, first: int = 0) -> list[bytes]:
    """Bodies from an offset on, range by range as tasks read them."""
    found: list[bytes] = []
    extents = store.extents(AUDIT)
    for extent in extents:
        wanted = OffsetRange(AUDIT, max(extent.start, first), extent.end, 0)
        if wanted.start < wanted.end:
            found += range_bodies(store, wanted)
    return found


def range_bodies(store: ReadableLogs, wanted: OffsetRange) -> list[bytes]:
    found: list[bytes] = []
    for group in row_groups(wanted, store.read(wanted)):
        found += arrow_batch(group, BODY).column("body").to_pylist()
    return found


def stores(broker: BrokerProcess, remote: str) -> list[TieredLogs]:
    """Remote storage with the broker's files, and with its HTTP service."""
    objects = ObjectLogs(remote)
    return [
        TieredLogs(objects, LogDirectory(broker.data_dir)),
        TieredLogs(objects, http_logs(broker)),
    ]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_left_the_disk_is_read_from_remote_storage(
    start: Callable[..., BrokerProcess], remote: str, compression: str
) -> None:
    broker = start(remote)
    fill(
        broker,
        BODIES,
        **STREAM,
        **{"x-local-max-length-bytes": 70_000, "x-compression": compression},
    )
    wait_until_stored(http_logs(broker), AUDIT, len(BODIES))
    wait_until_copied(broker)
    wait_until(lambda: first_local(broker) > len(BODIES) / 2)
    for store in stores(broker, remote):
        extents = store.extents(AUDIT)
        assert [each.start for each in extents[1:]] == [each.end for each in extents[:-1]]
        assert extents[0].start == 0
        assert bodies_of(store) == BODIES
        for start_at, end in ((0, 1), (7, 113), (first_local(broker) - 1, len(BODIES))):
            wanted = OffsetRange(AUDIT, start_at, end, 0)
            assert range_bodies(store, wanted) == BODIES[start_at:end]
        assert store.offset_at(AUDIT, 0) == 0
        assert store.offset_at(AUDIT, 2**62) is None
        cut = store.cut(OffsetRange(AUDIT, 3, extents[0].end, 0), 16_000)
        assert (cut.end, cut.body_bytes) == (6, 3 * len(BODIES[0]))
    times = [batch.records.time for batch in store.read(OffsetRange(AUDIT, 0, len(BODIES), 0))]
    found = [store.offset_at(AUDIT, each) for each in times]
    assert None not in found
    assert found == sorted(found, key=lambda offset: offset or 0)


def test_remote_storage_is_enough_to_read_what_was_copied(
    start: Callable[..., BrokerProcess], remote: str
) -> None:
    broker = start(remote)
    fill(broker, BODIES, **STREAM)
    wait_until_stored(http_logs(broker), AUDIT, len(BODIES))
    wait_until_copied(broker)
    end = copied(broker)["end_offset"]
    broker.kill()
    alone = ObjectLogs(remote)
    assert alone.vhosts() == ["/"]
    assert alone.partitions("/", None) == alone.partitions("/", ["audit"]) == [AUDIT]
    assert alone.partitions("/", ["other"]) == alone.partitions("other", None) == []
    assert bodies_of(alone) == BODIES[:end]
    with pytest.raises(RecordsLost, match=f"offsets {end} to {end + 4} of partition 0"):
        list(alone.read(OffsetRange(AUDIT, end, end + 5, 0)))


def test_a_broker_killed_while_it_copies_leaves_nothing_wrong(
    start: Callable[..., BrokerProcess], remote: str
) -> None:
    broker = start(remote, ROUTELOG_REMOTE_STORAGE_BYTES_PER_SECOND="100000")
    fill(broker, BODIES, **STREAM, **{"x-local-max-length-bytes": 70_000})
    for round_ in range(3):
        before = copied(broker)["segments"]
        wait_until(lambda: copied(broker)["segments"] > before)  # noqa: B023
        time.sleep(0.05 * round_)  # in the middle of the next one
        broker.kill()
        alone = bodies_of(ObjectLogs(remote))
        assert alone == BODIES[: len(alone)]
        broker.start()
    wait_until_copied(broker)
    for store in stores(broker, remote):
        assert bodies_of(store) == BODIES
    place = bucket(remote)
    (number,) = place.folders("%2F/audit-0")
    names = place.objects(f"%2F/audit-0/{number}")
    assert len(names) == 2 * copied(broker)["segments"], "leftovers are gone"


def test_what_a_kill_left_half_written_in_a_folder_is_gone_after_the_start(
    start: Callable[..., BrokerProcess], folder: str
) -> None:
    broker = start(folder)
    fill(broker, BODIES, **STREAM)
    wait_until_copied(broker)
    broker.kill()
    place = next(Path(unquote(urlsplit(folder).path)).rglob("*.segment")).parent
    left = place / f"{10**12:020d}-1-1.log.part"
    left.write_bytes(b"half")
    broker.start()
    wait_until(lambda: not left.exists())
    assert bodies_of(ObjectLogs(folder)) == BODIES[: len(bodies_of(ObjectLogs(folder)))]


@pytest.mark.long
def test_nothing_leaves_the_disk_while_remote_storage_is_away(
    start: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    server = ObjectServer(tmp_path / "objects").start()
    try:
        remote = server.url("away")
        broker = start(remote)
        server.stop()
        fill(broker, BODIES, **STREAM, **{"x-local-max-length-bytes": 70_000})
        wait_until_stored(http_logs(broker), AUDIT, len(BODIES))
        wait_until(lambda: "remote storage fails" in broker.log_text())
        assert first_local(broker) == 0
        with pytest.raises(StorageUnreachable, match="option remote: s3://logs/away"):
            bodies_of(stores(broker, remote)[0])
        server.start()
        wait_until_copied(broker)
        assert "remote storage answers again" in broker.log_text()
        wait_until(lambda: first_local(broker) > 0)
        assert bodies_of(stores(broker, remote)[1]) == BODIES
        assert "secret" not in broker.log_text()
    finally:
        server.stop()


def test_total_retention_removes_objects_and_a_reader_hears_what_is_missing(
    start: Callable[..., BrokerProcess], remote: str
) -> None:
    broker = start(remote)
    limits = {"x-local-max-length-bytes": 70_000, "x-max-length-bytes": 300_000}
    fill(broker, BODIES, **STREAM, **limits)
    wait_until_stored(http_logs(broker), AUDIT, len(BODIES))
    wait_until_copied(broker)
    wait_until(lambda: 0 < copied(broker)["bytes"] <= 300_000)
    for store in stores(broker, remote):
        first = store.extents(AUDIT)[0].start
        assert 0 < first < first_local(broker)
        assert bodies_of(store) == BODIES[first:]
        with pytest.raises(RecordsLost, match=f"offsets 0 to {first - 1} of partition 0"):
            list(store.read(OffsetRange(AUDIT, 0, len(BODIES), 0)))
        wanted = OffsetRange(AUDIT, 0, len(BODIES), 0)
        kept = list(store.read(wanted, lost_is_error=False))
        assert kept[0].base_offset == first
        assert kept[-1].end_offset == len(BODIES)


def test_a_range_that_goes_from_the_broker_while_it_is_read_is_found_in_remote_storage(
    start: Callable[..., BrokerProcess], remote: str
) -> None:
    broker = start(remote, ROUTELOG_REMOTE_STORAGE_BYTES_PER_SECOND="400000")
    fill(broker, BODIES, **STREAM, **{"x-local-max-length-bytes": 70_000})
    wait_until_stored(http_logs(broker), AUDIT, len(BODIES))
    for store in stores(broker, remote):
        extents = store.extents(AUDIT)  # planned while all is on the disk, or nearly
        wait_until(lambda: first_local(broker) > len(BODIES) / 2)
        planned = [range_bodies(store, each) for each in extents]
        assert list(chain.from_iterable(planned)) == BODIES


@pytest.mark.long
def test_a_named_reader_keeps_objects_and_not_the_disk(
    start: Callable[..., BrokerProcess], folder: str
) -> None:
    broker = start(folder)
    limits = {"x-local-max-length-bytes": 70_000, "x-max-length-bytes": 300_000}
    fill(broker, BODIES[:1], **STREAM, **limits)
    door = ManagementDoor(broker)
    door.do("PUT", "logs", "/", "audit", "readers", "lake", body={"offsets": {"0": 0}})
    fill(broker, BODIES[1:], **STREAM, **limits)
    wait_until_copied(broker)
    wait_until(lambda: first_local(broker) > len(BODIES) / 2)
    assert bodies_of(stores(broker, folder)[0]) == BODIES
    (row,) = door.get("logs", "/", "audit", "readers")
    assert row["partitions"][0]["bytes_behind"] > 500_000
    door.do("PUT", "logs", "/", "audit", "readers", "lake", body={"offsets": {"0": 100}})
    wait_until(lambda: copied(broker)["first_offset"] > 0)


def consumed(broker: BrokerProcess, count: int, **arguments: Any) -> list[tuple[int, bytes]]:
    """Offsets and bodies of what a consumer is given up to the last message, or so many, each acknowledged."""
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.basic_qos(prefetch_count=7)
    found: list[tuple[int, bytes]] = []
    arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
    for delivery, properties, body in channel.consume(
        "audit", arguments=arguments, inactivity_timeout=WAIT_SECONDS
    ):
        assert delivery is not None, f"{len(found)} of {count} came"
        found.append((int(properties.headers["x-stream-offset"]), body))
        channel.basic_ack(delivery.delivery_tag)
        if len(found) == count or found[-1][0] == len(BODIES) - 1:
            break
    channel.cancel()
    clients.close()
    return found


def tiered(broker: BrokerProcess, bodies: list[bytes] = BODIES, **arguments: Any) -> None:
    """A stream whose older half is in the bucket alone."""
    fill(broker, bodies, **STREAM, **{"x-local-max-length-bytes": 70_000}, **arguments)
    wait_until_copied(broker)
    wait_until(lambda: first_local(broker) > len(bodies) / 2)


WHOLE = list(enumerate(BODIES))


def test_consumers_read_both_parts_as_one_log(
    start: Callable[..., BrokerProcess], server: ObjectServer
) -> None:
    broker = start(server.url("consumers"))
    tiered(broker, **{"x-compression": "zstd"})
    broker.kill()  # nothing is in memory, and nobody has listed the bucket yet
    broker.start()
    assert consumed(broker, 10, x_group="g", x_stream_offset="1h") == WHOLE[:10]
    assert consumed(broker, len(BODIES), x_stream_offset="first") == WHOLE
    assert consumed(broker, len(BODIES) - 31, x_stream_offset=31) == WHOLE[31:]
    clients = Clients(broker.url)
    declared = clients.channel().queue_declare("audit", passive=True)
    assert declared.method.message_count == len(BODIES)
    clients.close()
    door = ManagementDoor(broker)
    reader = ("logs", "/", "audit", "readers", "g", "position")
    moved = door.do("PUT", *reader, body={"to": "1h", "dry_run": True})
    assert (moved["repeated"], moved["partitions"][0]["to"]) == (10, 0)
    text = BODIES[11][:6].decode()
    found = door.get("queues", "/", "audit", "messages", query=f"text={text}&offset=0")
    assert [each["offset"] for each in found["items"]] == [11]


def test_a_group_goes_on_in_the_bucket_when_the_broker_is_killed(
    start: Callable[..., BrokerProcess], folder: str
) -> None:
    broker = start(folder)
    tiered(broker)
    group = {"x_group": "g", "x_stream_offset": "first"}
    seen = dict(consumed(broker, 40, **group))
    broker.kill()
    broker.start()
    seen |= consumed(broker, len(BODIES), **group)  # acks of the last 10 ms come again
    assert sorted(seen.items()) == WHOLE


@pytest.mark.long
def test_a_filter_finds_what_is_in_the_bucket(
    start: Callable[..., BrokerProcess], folder: str
) -> None:
    broker = start(folder)
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare(
        "audit", durable=True, arguments={**STREAM, "x-local-max-length-bytes": 1}
    )
    channel.confirm_delivery()
    for number, body in enumerate(BODIES):
        kind = "odd" if number % 2 else "even"
        headers = {"x-stream-filter-value": kind}
        channel.basic_publish("", "audit", body, pika.BasicProperties(headers=headers))
    clients.close()
    wait_until_copied(broker)
    wait_until(lambda: first_local(broker) > len(BODIES) / 2)
    odd = WHOLE[1::2]
    wanted = {"x_stream_filter": "odd", "x_stream_offset": "first"}
    assert consumed(broker, len(odd), **wanted) == odd
    assert consumed(broker, len(odd), x_group="g", **wanted) == odd


@pytest.mark.long
def test_switched_off_by_a_policy_the_bucket_is_read_on(
    start: Callable[..., BrokerProcess], folder: str
) -> None:
    broker = start(folder)
    fill(broker, [], **{"x-queue-type": "stream"})
    door = ManagementDoor(broker)
    definition = {"remote-storage": True, "local-max-length-bytes": 70_000}
    policy = {"pattern": "^audit$", "definition": definition}
    door.do("PUT", "policies", "/", "tier", body=policy)
    fill(broker, BODIES, **{"x-queue-type": "stream"})
    wait_until_copied(broker)
    wait_until(lambda: first_local(broker) > len(BODIES) / 2)
    door.do("DELETE", "policies", "/", "tier")
    assert consumed(broker, len(BODIES), x_stream_offset="first") == WHOLE
    broker.kill()
    broker.start()
    assert consumed(broker, len(BODIES), x_group="g", x_stream_offset="first") == WHOLE


@pytest.mark.long
def test_consumers_wait_while_the_bucket_is_away(
    start: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    server = ObjectServer(tmp_path / "objects").start()
    try:
        broker = start(server.url("away"))
        tiered(broker)
        server.stop()
        with ThreadPoolExecutor(1) as reading:
            found = reading.submit(consumed, broker, len(BODIES), x_stream_offset="first")
            wait_until(lambda: "readers wait for remote storage" in broker.log_text())
            last = consumed(broker, 1, x_stream_offset=len(BODIES) - 1)
            assert last == WHOLE[-1:], "who reads the disk goes on"
            kinds = [each["kind"] for each in ManagementDoor(broker).get("findings")["findings"]]
            assert "remote storage" in kinds
            server.start()
            assert found.result() == WHOLE
        assert "remote storage answers its readers again" in broker.log_text()
        assert broker.log_text().count("readers wait for remote storage") == 1
        assert "secret" not in broker.log_text()
    finally:
        server.stop()


@pytest.mark.long
def test_a_consumer_is_told_of_a_damaged_object(
    start: Callable[..., BrokerProcess], folder: str
) -> None:
    broker = start(folder)
    tiered(broker)
    place = bucket(folder)
    (number,) = place.folders("%2F/audit-0")
    there = f"%2F/audit-0/{number}"
    name = sorted(name for name in place.objects(there) if name.endswith(".log"))[2]
    with closing(place.open(f"{there}/{name}")) as found:
        whole = bytearray(found.read(0, found.size))
    broken = bytearray(whole)
    broken[-1_000] ^= 1
    place.write(f"{there}/{name}", [broken], len(broken))
    broker.kill()
    broker.start()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="is quarantined") as told:
        consumed(broker, len(BODIES), x_stream_offset="first")
    assert told.value.reply_code == 541
    assert consumed(broker, 20, x_stream_offset=100) == WHOLE[100:], "behind it, all is well"
    place.write(f"{there}/{name}", [whole], len(whole))
    assert consumed(broker, len(BODIES), x_stream_offset="first") == WHOLE


def test_a_consumed_queue_is_kept_remotely(
    start: Callable[..., BrokerProcess], folder: str
) -> None:
    broker = start(folder)
    arguments = {"x-retention": "1h", "x-remote-storage": True, "x-local-max-age": "1s"}
    fill(broker, BODIES, **arguments)
    wait_until_copied(broker)
    wait_for_retention(broker)
    assert first_local(broker) == 0, "nothing is settled yet"
    clients = Clients(broker.url)
    channel = clients.channel()
    for delivery, _, _ in channel.consume("audit", auto_ack=False, inactivity_timeout=5):
        channel.basic_ack(delivery.delivery_tag)
        if delivery.delivery_tag == len(BODIES):
            break
    clients.close()
    wait_until(lambda: first_local(broker) > len(BODIES) / 2)
    assert bodies_of(stores(broker, folder)[1]) == BODIES


def test_a_deleted_queue_leaves_no_objects_and_its_successor_has_its_own(
    start: Callable[..., BrokerProcess], folder: str
) -> None:
    broker = start(folder)
    fill(broker, BODIES, **STREAM, **{"x-local-max-length-bytes": 70_000})
    wait_until_copied(broker)
    place = bucket(folder)
    (before,) = place.folders("%2F/audit-0")
    readers = stores(broker, folder)  # which go on while the queue changes, as a stream does
    assert [bodies_of(each) for each in readers] == [BODIES, BODIES]
    ManagementDoor(broker).do("DELETE", "queues", "/", "audit")
    fill(broker, BODIES[90::-1], **STREAM)
    wait_until_stored(http_logs(broker), AUDIT, 91)
    assert [bodies_of(each) for each in readers] == [BODIES[90::-1], BODIES[90::-1]]
    wait_until_copied(broker)
    wait_until(lambda: before not in place.folders("%2F/audit-0"))
    assert bodies_of(stores(broker, folder)[0]) == BODIES[90::-1]


def test_a_queue_deleted_before_a_crash_is_swept_by_the_next_start(
    start: Callable[..., BrokerProcess], folder: str
) -> None:
    broker = start(folder)
    fill(broker, BODIES, **STREAM)
    wait_until_copied(broker)
    place = bucket(folder)
    stray = f"%2F/gone-0/{0:020d}"  # below the next number of all queues
    place.write(f"{stray}/x.log", [b"left"], 4)
    broker.kill()
    broker.start()
    wait_until(lambda: not place.objects(stray))
    wait_until(lambda: copied(broker)["segments"] > 3)
    assert bodies_of(stores(broker, folder)[0]) == BODIES


def test_a_bucket_has_one_owner(start: Callable[..., BrokerProcess], folder: str) -> None:
    first = start(folder)
    fill(first, BODIES, **STREAM)
    wait_until_copied(first)
    second = start(folder, "other", ROUTELOG_PORT="0")
    fill(second, BODIES, **STREAM, **{"x-local-max-length-bytes": 70_000})
    wait_until(lambda: "another broker" in second.log_text())
    wait_until_stored(http_logs(second), AUDIT, len(BODIES))
    assert copied(second)["segments"] == 0
    assert first_local(second) == 0
    assert bodies_of(stores(first, folder)[0]) == BODIES


def test_a_damaged_object_is_no_record(start: Callable[..., BrokerProcess], remote: str) -> None:
    broker = start(remote)
    fill(broker, BODIES, **STREAM)
    wait_until_copied(broker)
    place = bucket(remote)
    (number,) = place.folders("%2F/audit-0")
    there = f"%2F/audit-0/{number}"
    names = sorted(place.objects(there))
    content = next(name for name in names if name.endswith(".log"))
    index = next(name for name in names if name.endswith(".segment"))
    for name in (content, index):
        with closing(place.open(f"{there}/{name}")) as found:
            whole = bytearray(found.read(0, found.size))
        broken = bytearray(whole)
        broken[len(broken) // 2] ^= 1
        place.write(f"{there}/{name}", [broken], len(broken))
        with pytest.raises(DamagedSegment, match=name):
            bodies_of(ObjectLogs(remote))
        place.write(f"{there}/{name}", [whole[:-1]], len(whole) - 1)
        with pytest.raises(DamagedSegment, match=name):
            bodies_of(ObjectLogs(remote))
        place.write(f"{there}/{name}", [whole], len(whole))
    end = copied(broker)["end_offset"]
    assert bodies_of(ObjectLogs(remote)) == BODIES[:end]


def test_a_policy_switches_copying_on(start: Callable[..., BrokerProcess], folder: str) -> None:
    broker = start(folder)
    fill(broker, BODIES, **{"x-queue-type": "stream"})
    assert copied(broker)["segments"] == 0
    definition = {"remote-storage": True, "local-max-length-bytes": 70_000}
    policy = {"pattern": "^audit$", "definition": definition}
    ManagementDoor(broker).do("PUT", "policies", "/", "tier", body=policy)
    wait_until_copied(broker)
    wait_until(lambda: first_local(broker) > 0)
    assert bodies_of(stores(broker, folder)[0]) == BODIES


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x-remote-storage": True}, "keeps no log"),
        ({"x-remote-storage": "yes", "x-queue-type": "stream"}, "x-remote-storage"),
        ({"x-local-max-age": "1h", "x-queue-type": "stream"}, "no 'x-remote-storage'"),
        ({**STREAM, "x-local-max-age": "soon"}, "x-local-max-age"),
        ({**STREAM, "x-local-max-length-bytes": -1}, "x-local-max-length-bytes"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    start: Callable[..., BrokerProcess], tmp_path: Path, arguments: dict[str, Any], reason: str
) -> None:
    broker = start(f"file://{tmp_path}/remote")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=reason) as refused:
        fill(broker, [], **arguments)
    assert refused.value.reply_code == 406


def test_a_broker_without_remote_storage_says_so(start: Callable[..., BrokerProcess]) -> None:
    broker = start("")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no remote storage") as refused:
        fill(broker, [], **STREAM)
    assert refused.value.reply_code == 406


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://host/x", "expected s3://"),
        ("logs", "expected s3://"),
        ("file://folder", "file:///folder"),
        ("s3://bucket/x?colour=blue", "colour"),
    ],
)
def test_an_address_that_is_none_stops_the_start_and_fails_the_query(
    start: Callable[..., BrokerProcess], url: str, reason: str
) -> None:
    with pytest.raises(BrokerFailed, match=f"(?i)remote_storage: .*{reason}"):
        start(url)
    with pytest.raises(BadOption, match=f"option remote: .*{reason}"):
        ObjectLogs(url)
