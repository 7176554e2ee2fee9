"""What becomes of a cluster when one node's disk is full, hangs, fails or is damaged, its clock jumps, or what
etcd holds cannot be read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from cluster.brokers.test_brokers import client, drained, others, publish
from cluster.faults.flipped_bits import PAGE_BYTES, flip_bit
from pika.exceptions import AMQPError, NackError
from support.broker_process import BrokerFailed, BrokerProcess
from support.pika_client import PERSISTENT
from support.sampling import sampled
from support.waiting import WAIT_SECONDS, wait_until

from routelog.log_backend.journal.journal_block import MAGIC
from routelog.mirror_cluster.coordination.etcd_gateway import encoded

HOURS = 3_600 * 10**9
BODY = b"x" * 100_000


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredBrokers]:
    small = {"ROUTELOG_JOURNAL_FILE_BYTES": "2097152", "ROUTELOG_JOURNAL_FILES_MAX": "2"}
    with mirrored_brokers(tmp_path_factory.mktemp("hurt"), is_hurt=True, **small) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: MirroredBrokers) -> MirroredBrokers:
    """One that is well, with an empty queue."""
    running.until_led(in_sync=3)
    leader = running.leader()
    publish(leader)  # nothing: there is the queue
    drained(leader)
    return running


def publish_at_last(broker: BrokerProcess, body: str) -> None:
    """Publish until it is confirmed: a connection ends when another node leads."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return publish(broker, body)
        except (AMQPError, NackError):
            assert time.monotonic() < deadline, broker.log_text()


def until_ended(broker: BrokerProcess) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while broker.alive:
        assert time.monotonic() < deadline, broker.log_text()
        time.sleep(0.05)


def name_of(broker: BrokerProcess) -> str:
    return broker.data_dir.name


@pytest.mark.long
def test_a_leader_whose_disk_hangs_is_followed_by_another_one(cluster: MirroredBrokers) -> None:
    leader = cluster.leader()
    publish(leader, "1")
    system = cluster.systems[name_of(leader)]
    system.hurt(hanging=1)
    try:
        publish_at_last(others(cluster, leader)[0], "2")
        assert cluster.leader() is not leader
    finally:
        system.heal()
    cluster.until_led(in_sync=3)
    assert {*drained(leader)} == {"1", "2"}  # 2 perhaps twice


def test_a_follower_whose_disk_is_full_keeps_nobody_waiting(cluster: MirroredBrokers) -> None:
    leader = cluster.leader()
    follower, _ = others(cluster, leader)
    channel = client(leader).channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    system = cluster.systems[name_of(follower)]
    system.hurt(full=1)
    try:
        # More than the files that the follower has: confirmed while its disk is full
        for _ in range(80):
            channel.basic_publish("", "q", BODY, PERSISTENT)
        shard = cluster.until_led(in_sync=2)
        assert f"{name_of(follower)}@test" not in shard["in_sync"]
    finally:
        system.heal()
    assert cluster.until_led(in_sync=3)["leader"] == shard["leader"], "the leader has not changed"
    assert len(drained(follower)) == 80
    channel.connection.close()


@pytest.mark.long
def test_a_leader_whose_disk_is_full_hands_over_when_it_is_told_to(
    cluster: MirroredBrokers,
) -> None:
    leader = cluster.leader()
    channel = client(leader).channel()
    blocked: list[bool] = []
    channel.connection.add_on_connection_blocked_callback(lambda *_: blocked.append(True))
    system = cluster.systems[name_of(leader)]
    system.hurt(full=1)
    try:
        channel.basic_publish("", "q", b"1", PERSISTENT)
        deadline = time.monotonic() + WAIT_SECONDS
        while not blocked:
            assert time.monotonic() < deadline, leader.log_text()
            channel.connection.process_data_events(0.05)
            channel.basic_publish("", "q", b"1", PERSISTENT)
        assert cluster.ask("transfer")[1] == 0, cluster.log_text()
        publish_at_last(others(cluster, leader)[0], "2")
        assert "2" in drained(cluster.leader())
        until_ended(leader)  # it starts again, which no node can on a full disk
    finally:
        system.heal()
    leader.start()
    cluster.until_led(in_sync=3)


@pytest.mark.parametrize("leads", sampled([True, False], 2))
def test_a_node_whose_disk_fails_ends_and_comes_back(cluster: MirroredBrokers, leads: bool) -> None:
    leader = cluster.leader()
    hurt = leader if leads else others(cluster, leader)[0]
    publish(leader, "1")
    system = cluster.systems[name_of(hurt)]
    system.hurt(failing=1)
    try:
        publish_at_last(others(cluster, hurt)[0], "2")
        until_ended(hurt)
    finally:
        system.heal()
    hurt.start()  # as a service manager does
    cluster.until_led(in_sync=3)
    assert {*drained(hurt)} == {"1", "2"}


@pytest.mark.long
def test_what_cannot_be_read_stops_the_start_and_is_left_as_it_is(cluster: MirroredBrokers) -> None:
    hurt = others(cluster, cluster.leader())[0]
    publish(hurt, "1")
    hurt.kill()
    before = {path: path.read_bytes() for path in hurt.data_dir.glob("journal/*.journal")}
    system = cluster.systems[name_of(hurt)]
    system.hurt(unreadable=1)
    try:
        with pytest.raises(BrokerFailed, match="Input/output error"):
            hurt.start()
    finally:
        system.heal()
    assert {path: path.read_bytes() for path in before} == before
    hurt.start()
    cluster.until_led(in_sync=3)
    assert drained(hurt) == ["1"]


def begins_behind(journal: Path, place: int) -> bool:
    content = journal.read_bytes()
    return content.startswith(MAGIC) and content[place:].startswith(MAGIC)


@pytest.mark.long
def test_a_node_whose_journal_is_damaged_takes_a_copy_of_another_ones(
    cluster: MirroredBrokers,
) -> None:
    hurt, _ = others(cluster, cluster.leader())
    publish(hurt, *map(str, range(20)))
    hurt.kill()
    journals = sorted(hurt.data_dir.glob("journal/*.journal"))
    # One with blocks behind its first one: damage in the last one of all looks as a torn write does.
    flip_bit(next(each for each in reversed(journals) if begins_behind(each, 2 * PAGE_BYTES)))
    hurt.start()
    cluster.until_led(in_sync=3)
    assert "all is given up here, as other nodes have it" in hurt.log_text()
    assert list((hurt.data_dir / "aside").iterdir())
    deadline = time.monotonic() + WAIT_SECONDS
    while cluster.ask("transfer", "--to", f"{name_of(hurt)}@test", "--timeout", "30")[1]:
        # The lease of what it was before has to end.
        assert time.monotonic() < deadline, cluster.status()
    assert drained(hurt) == [*map(str, range(20))]


@pytest.mark.long
def test_a_node_that_does_not_know_its_own_number_says_so_and_does_not_start(
    cluster: MirroredBrokers,
) -> None:
    hurt = others(cluster, cluster.leader())[0]
    hurt.kill()
    kept = hurt.data_dir / "incarnation"
    number = kept.read_bytes()
    kept.write_bytes(b"\x00" * 8)
    try:
        with pytest.raises(BrokerFailed, match="incarnation: expected a number, found") as failed:
            hurt.start()
        assert "Traceback" not in str(failed.value)
    finally:
        kept.write_bytes(number)
    hurt.start()
    cluster.until_led(in_sync=3)


async def put_record(cluster: MirroredBrokers, value: str) -> str:
    """Put another record of the shard into etcd; returns the one that was there, as the gateway has it."""
    async with cluster.etcd() as gateway:
        key = encoded(b"/routelog/routelog/shards/0")
        before = json.loads(await gateway.request("kv/range", {"key": key}))["kvs"][0]["value"]
        await gateway.request("kv/put", {"key": key, "value": value})
        return str(before)


@pytest.mark.long
def test_a_record_that_cannot_be_read_is_told_and_waited_for(cluster: MirroredBrokers) -> None:
    leader = cluster.leader()
    follower = others(cluster, leader)[0]
    record = asyncio.run(put_record(cluster, encoded(b'{"version": 2}')))
    try:
        publish(leader, "1")
        follower.kill()
        told_before = len(follower.log_text())
        follower.start()
        wait_until(lambda: "shards/0 cannot be read" in follower.log_text()[told_before:])
        told, code = cluster.ask("status")
        assert code == 1
        assert "shards/0 cannot be read" in told["summary"]
    finally:
        asyncio.run(put_record(cluster, record))
    cluster.until_led(in_sync=3)
    assert drained(follower) == ["1"]


@pytest.mark.long
def test_clocks_that_jump_change_nothing(cluster: MirroredBrokers) -> None:
    leader = cluster.leader()
    epoch = cluster.until_led()["epoch"]
    channel = client(leader).channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    for name, hours in (*((each, 9) for each in cluster.systems), *((each, -9) for each in "abc")):
        cluster.systems[name].hurt(clock=hours * HOURS)
        time.sleep(0.5)
        channel.basic_publish("", "q", name, PERSISTENT)
    for system in cluster.systems.values():
        system.heal()
    time.sleep(2.5)  # longer than a lease
    assert cluster.until_led(in_sync=3)["epoch"] == epoch
    assert drained(leader) == [*"abcabc"]
    channel.connection.close()
