"""What a connection that publishes on a low disk may still do, and what it hears."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pamqp import commands, heartbeat
from scenarios.clients.confirmed_publisher import PERSISTENT
from scenarios.clients.raw_client import (
    FRAME_BYTES_MAX,
    RawClient,
    Silent,
    content_body,
    content_header,
    message,
    publish,
)
from scenarios.storage.small_disk import RESERVE_BYTES, StartBroker, write_ballast
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.waiting import wait_until

BLOCKED = commands.Connection.Blocked
UNBLOCKED = commands.Connection.Unblocked
QUIET_SECONDS = 0.3  # nothing comes: several times what an answer takes


@pytest.fixture
def low(small_disk: Path, small_broker: StartBroker) -> BrokerProcess:
    """A broker with the queue `q` on a disk that is nearly full."""
    broker = small_broker()
    with RawClient(broker.host, broker.port) as client:
        client.open()
        client.open_channel()
        client.declare("q", durable=True, exclusive=False)
    write_ballast(small_disk, leave=RESERVE_BYTES // 2)
    wait_until(lambda: "publishers wait" in broker.log_text())
    return broker


@pytest.fixture
def connect(low: BrokerProcess) -> Iterator[Callable[..., RawClient]]:
    """Opens connections with channel 1."""
    opened: list[RawClient] = []

    def open_one(**options: object) -> RawClient:
        client = RawClient(low.host, low.port)
        opened.append(client)
        client.open(**options)
        client.open_channel()
        return client

    yield open_one
    for client in opened:
        client.socket.close()


def remove_ballast(small_disk: Path) -> None:
    (small_disk / "ballast").unlink()


def hears_nothing(client: RawClient) -> bool:
    try:
        client.receive(QUIET_SECONDS)
    except Silent:
        return True
    return False


def count(client: RawClient) -> int:
    declared = client.call(
        commands.Queue.Declare(queue="q", passive=True), commands.Queue.DeclareOk
    )
    return int(declared.message_count)


def in_pieces(payload: bytes) -> bytes:
    piece = FRAME_BYTES_MAX - 8
    frames = publish("", "q") + content_header(len(payload), PERSISTENT)
    for at in range(0, len(payload), piece):
        frames += content_body(payload[at : at + piece])
    return frames


@pytest.mark.parametrize("size", [10, 300_000], ids=["in one frame", "in pieces"])
def test_a_publish_waits_until_there_is_room_and_is_then_carried_out(
    low: BrokerProcess, connect: Callable[..., RawClient], small_disk: Path, size: int
):
    publisher, other = connect(), connect()
    payload = b"x" * size
    whole = message("q", payload, PERSISTENT) if size < FRAME_BYTES_MAX else in_pieces(payload)
    publisher.send_bytes(whole * 2)
    assert publisher.expect(BLOCKED).reason == "low on disk"
    assert hears_nothing(publisher)
    rows = ManagementDoor(low).get("connections")
    assert sorted((row["state"], row["blocked_by"]) for row in rows) == [
        ("blocked", ["disk"]),
        ("running", []),
    ]
    assert count(other) == 0
    remove_ballast(small_disk)
    publisher.expect(UNBLOCKED)
    assert count(publisher) == 2
    assert hears_nothing(other)


def test_a_message_that_was_begun_before_is_finished_after(
    connect: Callable[..., RawClient], small_disk: Path
):
    publisher, other = connect(), connect()
    remove_ballast(small_disk)
    wait_until(lambda: free_enough(other))
    frames = in_pieces(b"x" * 300_000)
    publisher.send_bytes(frames[:140_000])
    count(other)
    write_ballast(small_disk, leave=RESERVE_BYTES // 2)
    wait_until(lambda: not free_enough(other))
    publisher.send_bytes(frames[140_000:])
    publisher.expect(BLOCKED)
    assert count(other) <= 2
    remove_ballast(small_disk)
    publisher.expect(UNBLOCKED)
    assert publisher.get("q") is not None


def free_enough(client: RawClient) -> bool:
    """Whether a publish is carried out: the client says so, or waits until it is."""
    with RawClient(*client.socket.getpeername()[:2]) as probe:
        probe.open()
        probe.open_channel()
        queue = probe.declare()
        probe.send_bytes(message(queue, b"?"))
        probe.send(commands.Queue.Declare(queue=queue, passive=True), 1)
        return not isinstance(probe.receive()[1], BLOCKED)


def test_a_client_that_did_not_announce_it_is_held_without_a_word(
    connect: Callable[..., RawClient], small_disk: Path
):
    publisher, other = connect(capabilities={}), connect()
    publisher.send_bytes(message("q", b"x", PERSISTENT))
    assert hears_nothing(publisher)
    assert count(other) == 0
    remove_ballast(small_disk)
    wait_until(lambda: count(other) == 1)
    assert hears_nothing(publisher)


def test_a_transaction_waits_with_its_commit_only_when_it_publishes(
    connect: Callable[..., RawClient], small_disk: Path
):
    client = connect()
    client.call(commands.Tx.Select(), commands.Tx.SelectOk)
    client.call(commands.Tx.Commit(), commands.Tx.CommitOk)
    client.send_bytes(message("q", b"x", PERSISTENT))
    client.send(commands.Tx.Commit(), 1)
    client.expect(BLOCKED)
    assert hears_nothing(client)
    remove_ballast(small_disk)
    client.expect(UNBLOCKED)
    client.expect(commands.Tx.CommitOk)
    assert count(client) == 1


def test_a_held_client_is_sent_heartbeats_and_its_own_are_not_missed(
    connect: Callable[..., RawClient], small_disk: Path
):
    publisher = connect(beat=1)
    publisher.send_bytes(message("q", b"x", PERSISTENT))
    publisher.expect(BLOCKED)
    beats = 0
    end = time.monotonic() + 4  # a silent peer is dropped after three
    while time.monotonic() < end or beats < 4:
        assert isinstance(publisher.receive()[1], heartbeat.Heartbeat)
        beats += 1
    remove_ballast(small_disk)
    publisher.expect(UNBLOCKED)
    assert count(publisher) == 1


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
def test_a_held_client_that_is_gone_is_noticed_by_its_heartbeats(
    connect: Callable[..., RawClient], reset: bool
):
    gone, other = connect(beat=1), connect()
    gone.declare("mine", exclusive=True)
    gone.send_bytes(message("q", b"x", PERSISTENT))
    gone.expect(BLOCKED)
    linger = struct.pack("ii", 1, 0) if reset else struct.pack("ii", 0, 0)
    gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    gone.socket.close()

    def is_free() -> bool:
        other.send(commands.Queue.Declare(queue="mine", durable=False, exclusive=True), 1)
        _, answer = other.receive()
        if isinstance(answer, commands.Queue.DeclareOk):
            return True
        assert isinstance(answer, commands.Channel.Close), answer
        assert answer.reply_code == 405
        other.send(commands.Channel.CloseOk(), 1)
        other.open_channel()
        return False

    wait_until(is_free)
    assert count(other) == 0


def test_a_held_client_is_told_when_the_broker_stops(
    connect: Callable[..., RawClient], low: BrokerProcess
):
    publisher = connect()
    publisher.send_bytes(message("q", b"x", PERSISTENT))
    publisher.expect(BLOCKED)
    stopper = threading.Thread(target=low.terminate)
    stopper.start()
    assert publisher.expect(commands.Connection.Close).reply_code == 320
    publisher.send(commands.Connection.CloseOk())
    publisher.wait_until_dropped()
    stopper.join()
    assert "did not answer connection.close" not in low.log_text()  # its close-ok was read


def test_who_consumes_acknowledges_purges_and_deletes_is_not_held(
    connect: Callable[..., RawClient], small_disk: Path
):
    remove_ballast(small_disk)
    publisher, consumer = connect(), connect()
    wait_until(lambda: free_enough(consumer))
    publisher.send_bytes(message("q", b"x", PERSISTENT) * 3)
    assert count(publisher) == 3
    write_ballast(small_disk, leave=RESERVE_BYTES // 2)
    wait_until(lambda: not free_enough(consumer))
    consumer.call(commands.Basic.Consume(queue="q", consumer_tag="c"), commands.Basic.ConsumeOk)
    for tag in (1, 2, 3):
        assert consumer.expect(commands.Basic.Deliver).delivery_tag == tag
        assert consumer.receive_content()[1] == b"x"
        consumer.send(commands.Basic.Ack(delivery_tag=tag), 1)
    consumer.call(commands.Basic.Cancel("c"), commands.Basic.CancelOk)
    assert count(consumer) == 0
    consumer.declare("new", durable=True, exclusive=False)
    consumer.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk)
    consumer.call(commands.Queue.Delete(queue="new"), commands.Queue.DeleteOk)
