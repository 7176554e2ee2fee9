"""Logs over HTTP: the same as in the files, for whoever may read the queue, and nobody else."""

from __future__ import annotations

import json
import pickle
import random
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from support.broker_process import BrokerProcess
from support.compressed_queue import (
    ORDERS,
    SMALL_SEGMENTS,
    publish,
    segment_files,
    wait_until_compressed,
)
from support.log_service import contents, endpoint, http_logs, service_url, wait_until_stored
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients
from support.ports import free_port
from support.waiting import wait_until

from routelog.log_backend import SystemClock
from routelog.spark_bridge.logs.errors import (
    BadOption,
    DamagedSegment,
    DeclaredAgain,
    RecordsLost,
    ServiceUnreachable,
)
from routelog.spark_bridge.logs.http_logs import HttpLogs
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange
from routelog.spark_bridge.reading.micro_batches import MicroBatches
from routelog.spark_bridge.reading.read_options import parse_read_options

pytestmark = pytest.mark.differs_from_rabbitmq("has no such service")

AUTHORITY = trustme.CA()
PLAIN = LogPartition("/", "plain", 0)
PACKED = LogPartition("/", "packed", 0)
COUNT = len(ORDERS)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a queue of several segments, and one whose segments are compressed."""
    folder = tmp_path_factory.mktemp("served")
    AUTHORITY.cert_pem.write_to_path(str(folder / "ca.pem"))
    certificate = AUTHORITY.issue_cert("localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    with_tls = {
        "ROUTELOG_TLS_CERTIFICATE": str(folder / "server.pem"),
        "ROUTELOG_TLS_PORT": "0",
    }
    process = BrokerProcess(folder / "data", SMALL_SEGMENTS | with_tls).start()
    clients = Clients(process.url)
    channel = clients.connect().channel()
    publish(channel, "plain", **{"x-retention": "1h"})
    publish(channel, "packed", **{"x-retention": "1h", "x-compression": "zstd"})
    channel.queue_declare("idle", durable=True)
    wait_until_compressed(process, "packed")
    for partition in (PLAIN, PACKED):
        wait_until_stored(http_logs(process), partition, COUNT)
    clients.close()
    yield process
    process.stop()


@pytest.mark.parametrize("partition", [PLAIN, PACKED], ids=["plain", "compressed"])
def test_the_service_gives_what_is_in_the_files(
    served: BrokerProcess, partition: LogPartition
) -> None:
    files, http = LogDirectory(served.data_dir), http_logs(served)
    assert http.partitions("/", [partition.queue]) == [partition]
    extents = http.extents(partition)
    assert len(extents) > 3
    assert extents == [replace(each, position_hint=0) for each in files.extents(partition)]
    choice = random.Random(1)
    whole = OffsetRange(partition, 0, COUNT, 0)
    ranges = [whole, *extents]
    for _ in range(30):
        start = choice.randrange(COUNT)
        ranges.append(replace(whole, start=start, end=choice.randint(start + 1, COUNT)))
    for wanted in ranges:
        assert contents(http, wanted) == contents(files, wanted)
    for extent in extents:
        for bytes_max in (1, 5_000, 20_000, 10**9):
            part = replace(extent, start=extent.start + 1)
            assert http.cut(part, bytes_max) == files.cut(part, bytes_max)
    times = [batch.records.time for batch in files.read(whole)]
    for time in (0, *times[::9], times[-1] + 1, 2**62):
        assert http.offset_at(partition, time) == files.offset_at(partition, time)


@pytest.mark.parametrize("over", ["url", "path"])
def test_a_queue_that_is_declared_again_is_another_one(tmp_path: Path, over: str) -> None:
    broker = BrokerProcess(tmp_path, {"ROUTELOG_FLUSH_SECONDS": "0.05"}).start()
    try:
        channel = Clients(broker.url).connect().channel()
        channel.confirm_delivery()

        def declared(count: int) -> None:
            channel.queue_declare("plain", durable=True, arguments={"x-queue-type": "stream"})
            for _ in range(count):
                channel.basic_publish("", "plain", b"body", PERSISTENT)
            wait_until_stored(http_logs(broker), PLAIN, count)

        declared(10)
        place = {"url": service_url(broker), "path": str(broker.data_dir)}[over]
        options = parse_read_options({over: place, "subscribe": "plain"})
        store = options.open_store()
        batches = MicroBatches(store, options, SystemClock())
        start = batches.first()
        end = batches.end(start, limited=False)
        ((wanted,),) = batches.tasks(start, end)
        assert len(contents(store, wanted)) == 10
        channel.queue_delete("plain")
        declared(25)
        with pytest.raises(DeclaredAgain):
            batches.end(end, limited=False)
        with pytest.raises(RecordsLost):
            contents(store, wanted)
        assert contents(store, wanted, lost_is_error=False) == []
    finally:
        broker.stop()


def test_what_is_not_stored_is_named(served: BrokerProcess) -> None:
    http = http_logs(served)
    beyond = OffsetRange(PLAIN, COUNT - 1, COUNT + 5, 0)
    with pytest.raises(RecordsLost, match=rf"offsets {COUNT} to {COUNT + 4} of partition 0 of"):
        list(http.read(beyond))
    assert [offset for offset, _ in contents(http, beyond, lost_is_error=False)] == [COUNT - 1]
    assert http.extents(LogPartition("/", "idle", 0)) == [
        OffsetRange(LogPartition("/", "idle", 0), 0, 0, 0)
    ]
    gone = LogPartition("/", "nothing", 0)
    assert http.extents(gone) == [OffsetRange(gone, 0, 0, 0)]
    assert http.partitions("/", ["nothing"]) == []
    with pytest.raises(BadOption, match="option vhost: no vhost 'elsewhere' at"):
        http.partitions("elsewhere", None)
    assert http.vhosts() == ["/"]
    ask = ManagementDoor(served).ask
    asked = ("GET", "logs", "/", "idle", "0")
    for span in ("start=0&end=5", f"start=5&end={10**19}"):
        assert ask(*asked, "records", query=span)[0] == 404
        assert ask(*asked, "body-sizes", query=f"{span}&bytes={10**19}") == (200, [])


def test_a_user_reads_the_queues_that_he_may_read(served: BrokerProcess) -> None:
    guest = ManagementDoor(served)
    guest.add_user("reader", vhost=None)
    guest.do("PUT", "vhosts", "other")
    with pytest.raises(BadOption, match="User not authorised to access virtual host"):
        http_logs(served, "reader", "reader").partitions("/", None)
    allowed = {"configure": "", "write": "", "read": "plain"}
    guest.do("PUT", "permissions", "/", "reader", body=allowed)
    reader = http_logs(served, "reader", "reader")
    assert reader.vhosts() == ["/"]
    assert reader.partitions("/", None) == [PLAIN]
    assert len(contents(reader, OffsetRange(PLAIN, 0, COUNT, 0))) == COUNT
    for refused in (
        lambda: reader.partitions("/", ["packed"]),
        lambda: reader.extents(PACKED),
        lambda: list(reader.read(OffsetRange(PACKED, 0, 1, 0))),
        lambda: reader.offset_at(PACKED, 0),
    ):
        with pytest.raises(BadOption, match="access to queue 'packed' in vhost '/' refused for us"):
            refused()
    with pytest.raises(BadOption, match=r"option url: .*Login failed"):
        http_logs(served, "reader", "wrong").partitions("/", None)


def test_a_token_opens_logs_of_its_vhost_and_nothing_else(served: BrokerProcess) -> None:
    guest = ManagementDoor(served)
    guest.add_user("bearer", "administrator")
    guest.do("PUT", "vhosts", "second")
    guest.do(
        "PUT",
        "permissions",
        "second",
        "bearer",
        body=dict.fromkeys(("configure", "write", "read"), ".*"),
    )
    bearer = ManagementDoor(served, ("bearer", "bearer"))
    token = bearer.do("POST", "logs", "/", "token", body={"seconds": 60})["token"]
    bearer.headers = {"Authorization": f"Bearer {token}"}
    assert bearer.ask("GET", "logs", "/")[0] == 200
    for method, *path in (
        ("GET", "logs", "second"),
        ("GET", "queues"),
        ("GET", "users"),
        ("DELETE", "queues", "/", "plain"),
        ("POST", "logs", "/", "token"),
    ):
        assert bearer.ask(method, *path, body={} if method == "POST" else None)[0] == 401, path
    place = ("logs", "/", "plain", "readers", "held")
    for method, *path in (("PUT", *place), ("PUT", *place, "position"), ("DELETE", *place)):
        status, told = bearer.ask(method, *path, body={"offsets": {"0": 0}, "to": 0})
        assert (status, "reads only" in told["reason"]) == (401, True), path
    assert guest.get("logs", "/", "plain", "readers") == []
    for changed in (token[:-2] + ("AA" if token[-2:] != "AA" else "BB"), token[:-1], "log.x.y"):
        bearer.headers = {"Authorization": f"Bearer {changed}"}
        assert bearer.ask("GET", "logs", "/")[0] == 401
    bearer.headers = {"Authorization": f"Bearer {token}"}
    guest.do("PUT", "users", "bearer", body={"password": "other", "tags": ""})
    assert bearer.ask("GET", "logs", "/")[0] == 401


@pytest.mark.parametrize("seconds", [0, -1, 10**9, "long"])
def test_a_token_for_no_sensible_time_is_refused(served: BrokerProcess, seconds: object) -> None:
    door = ManagementDoor(served)
    assert door.ask("POST", "logs", "/", "token", body={"seconds": seconds})[0] == 400


@pytest.mark.parametrize(
    "query",
    ["", "start=1", "start=-1&end=4", "start=4&end=4", "start=x&end=9", f"start=0&end={10**30}"],
)
def test_a_range_that_is_none_is_refused(served: BrokerProcess, query: str) -> None:
    status, _, answer = ManagementDoor(served).raw("GET", f"/logs/%2F/plain/0/records?{query}")
    assert status == 400, answer


def test_executors_have_a_token_and_no_password(served: BrokerProcess) -> None:
    driver = endpoint(service_url(served))
    ticket = HttpLogs(driver, {}).ticket("/")
    travelled = pickle.loads(pickle.dumps(driver))
    assert (travelled.user, travelled.password) == ("guest", "")
    task = HttpLogs(travelled, ticket)
    assert len(contents(task, OffsetRange(PLAIN, 0, COUNT, 0))) == COUNT


@pytest.mark.parametrize("partition", [PLAIN, PACKED], ids=["plain", "compressed"])
def test_logs_are_read_over_tls(served: BrokerProcess, partition: LogPartition) -> None:
    listeners = ManagementDoor(served).get("overview")["listeners"]
    (port,) = (each["port"] for each in listeners if each["protocol"] == "https")
    url = f"https://guest:guest@localhost:{port}"
    trusting = endpoint(url, tlsAuthorities=str(served.data_dir.parent / "ca.pem"))
    assert len(contents(HttpLogs(trusting, {}), OffsetRange(partition, 0, COUNT, 0))) == COUNT
    with pytest.raises(ServiceUnreachable, match="certificate verify failed"):
        HttpLogs(endpoint(url, retries=0), {}).partitions("/", None)
    with pytest.raises(BadOption, match="option tlsAuthorities: /nowhere"):
        HttpLogs(endpoint(url, tlsAuthorities="/nowhere"), {}).partitions("/", None)


def test_a_broker_that_is_not_there_is_named(served: BrokerProcess) -> None:
    port = free_port()
    lost = HttpLogs(endpoint(f"http://guest:guest@127.0.0.1:{port}", retries=1), {})
    with pytest.raises(ServiceUnreachable, match=rf"option url: http://127.0.0.1:{port} cannot be"):
        lost.partitions("/", None)


def test_a_reader_goes_on_behind_a_restart_of_the_broker(tmp_path: Path) -> None:
    port = str(free_port())
    broker = BrokerProcess(tmp_path, SMALL_SEGMENTS | {"ROUTELOG_MANAGEMENT_PORT": port}).start()
    try:
        clients = Clients(broker.url)
        publish(clients.connect().channel(), "plain", **{"x-retention": "1h"})
        http = http_logs(broker)
        wait_until_stored(http, PLAIN, COUNT)
        batches = http.read(OffsetRange(PLAIN, 0, COUNT, 0))
        found = [next(batches)]
        broker.kill()
        broker.start()
        found += batches
        ends = [0, *(batch.end_offset for batch in found)]
        assert [batch.base_offset for batch in found] == ends[:-1]
        assert ends[-1] == COUNT
    finally:
        broker.stop()


def test_who_has_the_password_asks_for_a_token_of_another_key(tmp_path: Path) -> None:
    port = str(free_port())
    broker = BrokerProcess(tmp_path, {"ROUTELOG_MANAGEMENT_PORT": port}).start()
    try:
        Clients(broker.url).connect().channel().queue_declare("plain", durable=True)
        driver = http_logs(broker)
        task = HttpLogs(
            pickle.loads(pickle.dumps(endpoint(service_url(broker)))), driver.ticket("/")
        )
        broker.stop()
        (tmp_path / "log_token.key").unlink()  # as of a node that was promoted or restored
        broker.start()
        assert driver.partitions("/", None) == [PLAIN]
        with pytest.raises(BadOption, match="the token is not valid, or not any more"):
            task.partitions("/", None)
        ManagementDoor(broker).do("DELETE", "permissions", "/", "guest")
        with pytest.raises(BadOption, match="User not authorised to access virtual host"):
            driver.partitions("/", None)
    finally:
        broker.stop()


def test_a_damaged_batch_is_never_handed_on(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, SMALL_SEGMENTS).start()
    try:
        publish(Clients(broker.url).connect().channel(), "plain", **{"x-retention": "1h"})
        http = http_logs(broker)
        wait_until_stored(http, PLAIN, COUNT)
        segment = segment_files(broker, "plain", ".log")[1]
        with segment.open("r+b") as file:
            file.seek(5_000)
            file.write(b"\xff" * 8)
        with pytest.raises(DamagedSegment, match=r"plain.* is damaged at position"):
            list(http.read(OffsetRange(PLAIN, 0, COUNT, 0)))
    finally:
        broker.stop()


def test_a_reader_that_takes_nothing_holds_nobody_else(served: BrokerProcess) -> None:
    http = http_logs(served)
    wait_until_stored(http, PLAIN, COUNT)
    address = ManagementDoor(served).address
    token = http.ticket("/")["/"]
    request = (
        f"GET /api/logs/%2F/plain/0/records?start=0&end={COUNT} HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {token}\r\n\r\n"
    )
    idle = []
    for _ in range(20):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect((address.hostname, address.port))
        client.sendall(request.encode())
        idle.append(client)
    clock = SystemClock()
    begun = clock.monotonic()
    assert len(contents(http, OffsetRange(PLAIN, 0, COUNT, 0))) == COUNT
    assert clock.monotonic() - begun < 5.0
    for client in idle:
        client.close()
    assert ManagementDoor(served).get("overview")


def test_a_log_is_kept_for_readers_who_tell_how_far_they_are(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, SMALL_SEGMENTS).start()
    try:
        channel = Clients(broker.url).connect().channel()
        publish(channel, "plain", **{"x-retention": "1s"})
        channel.queue_declare("plain", passive=True)
        http, door = http_logs(broker), ManagementDoor(broker)
        http.report("lake", {PLAIN: 0})
        wait_until_stored(http, PLAIN, COUNT)
        channel.queue_purge("plain")
        assert _readers(door) == {"lake": [{"next_offset": 0, "messages_ready": COUNT}]}
        _let_pass(1.5)  # longer than the retention
        assert http.extents(PLAIN)[0].start == 0
        second = http.extents(PLAIN)[1].start
        http.report("lake", {PLAIN: second})
        http.report("lake", {PLAIN: 1})  # backwards: nothing changes
        rest = [{"next_offset": second, "messages_ready": COUNT - second}]
        assert _readers(door) == {"lake": rest}
        wait_until(lambda: http.extents(PLAIN)[0].start == second)
        _let_pass(0.1)  # what is settled is journaled within 10 ms
        broker.kill()
        broker.start()
        door = ManagementDoor(broker)
        assert _readers(door) == {"lake": rest}
        assert http_logs(broker).extents(PLAIN)[0].start == second
        for offsets in ({"0": COUNT + 1}, {"1": 0}, {"0": -1}):
            path = ("logs", "/", "plain", "readers", "lake")
            assert door.ask("PUT", *path, body={"offsets": offsets})[0] == 400
        door.do("DELETE", "logs", "/", "plain", "readers", "lake")
        assert _readers(door) == {}
        wait_until(lambda: http_logs(broker).extents(PLAIN)[0].start > second)
    finally:
        broker.stop()


def test_a_queue_that_keeps_no_log_holds_nothing(served: BrokerProcess) -> None:
    door = ManagementDoor(served)
    path = ("logs", "/", "idle", "readers", "lake")
    status, answer = door.ask("PUT", *path, body={"offsets": {"0": 0}})
    assert status == 400
    assert "idle" in json.dumps(answer)


def _readers(door: ManagementDoor) -> dict[str, object]:
    rows = door.get("logs", "/", "plain", "readers")
    places = ("next_offset", "messages_ready")
    return {
        row["name"]: [{key: each[key] for key in places} for each in row["partitions"]]
        for row in rows
    }


def _let_pass(seconds: float) -> None:
    clock = SystemClock()
    begun = clock.monotonic()
    wait_until(lambda: clock.monotonic() - begun > seconds)
