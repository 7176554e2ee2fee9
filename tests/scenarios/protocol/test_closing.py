"""The end of a connection: what is still on its way when both sides say goodbye resets nothing."""

from __future__ import annotations

import ssl
import time
from contextlib import suppress

import pytest
import trustme
from pamqp import body, commands
from scenarios.clients.bad_input import Broker
from scenarios.clients.raw_client import (
    RawClient,
    content_header,
    frame,
    message,
    method,
    plain,
    publish,
)
from scenarios.protocol.test_transport import tls_port
from support.management_door import ManagementDoor
from support.waiting import WAIT_SECONDS, wait_until

from routelog.broker.sockets.client_socket import LEAVE_SECONDS

LATE_SECONDS = 0.1  # long enough for a reset to come back
HEARTBEAT = frame(8, 0, b"")
GARBAGE = "no AMQP at all"
GOODBYE = commands.Connection.Close(200, "", 0, 0)
LATE = {
    "heartbeats": HEARTBEAT,
    "publishes": message("nobody", b"late") * 10,
    "half a message": publish("", "nobody") + content_header(1_000_000),
    "a method": method(20, 10, b"\0"),
    "another close": method(10, 50, b"\0\0\0\0\0\0\0", channel=0),
    GARBAGE: b"\xff" * 100_000,
    "a lot": message("nobody", bytes(100_000)) * 50,
}

RESETS = pytest.mark.differs_from_rabbitmq("resets the socket at what it cannot read")


def opened(broker: Broker, **options: int) -> RawClient:
    client = RawClient(broker.host, broker.port)
    client.open(**options)
    client.open_channel()
    return client


def close(client: RawClient) -> None:
    client.call(GOODBYE, commands.Connection.CloseOk, 0)


def send_late(client: RawClient, late: bytes) -> None:
    """Send in three goes, as if other threads had not heard of the end; none of them may fail."""
    for _ in range(3):
        client.socket.sendall(late)
        time.sleep(LATE_SECONDS)


def assert_a_clean_end(client: RawClient) -> None:
    """The end of the stream, and no reset."""
    client.socket.settimeout(WAIT_SECONDS)
    assert client.socket.recv(1) == b""


def is_reset(client: RawClient) -> bool:
    try:
        client.socket.sendall(HEARTBEAT)
    except ConnectionError:
        return True
    return False


@pytest.fixture(
    params=[pytest.param(LATE[name], id=name, marks=[RESETS] * (name == GARBAGE)) for name in LATE]
)
def late(request: pytest.FixtureRequest) -> bytes:
    return bytes(request.param)


def test_behind_close_ok_the_socket_is_the_clients_for_a_moment(broker: Broker):
    with opened(broker) as client:
        close(client)
        client.socket.settimeout(LEAVE_SECONDS / 2)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
        client.socket.sendall(HEARTBEAT)


def read_to_the_end(client: RawClient) -> int:
    """Everything that still comes; returns how many bytes."""
    read = 0
    while chunk := client.socket.recv(1_000_000):
        read += len(chunk)
    return read


@pytest.mark.differs_from_rabbitmq("leaves what is unsent to the kernel")
def test_a_client_that_hangs_is_reset_and_cannot_read_what_others_have(broker: Broker):
    with opened(broker, beat=1) as client, opened(broker) as another:
        name = client.declare("hangs", exclusive=False)
        client.call(commands.Basic.Consume(queue=name), commands.Basic.ConsumeOk)
        another.send_bytes(message(name, bytes(100_000)) * 300)

        def came_back() -> bool:
            declare = commands.Queue.Declare(queue=name, passive=True)
            found = another.call(declare, commands.Queue.DeclareOk)
            return (found.message_count, found.consumer_count) == (300, 0)

        wait_until(came_back)
        another.call(commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)
        with pytest.raises(ConnectionResetError):
            read_to_the_end(client)


@pytest.mark.differs_from_rabbitmq("waits for the client to end its side first")
def test_what_a_client_sends_behind_its_close_does_not_reset_the_socket(broker: Broker, late):
    with opened(broker) as client:
        close(client)
        send_late(client, late)
        assert_a_clean_end(client)


def test_a_close_in_the_middle_of_what_other_threads_send_is_answered(broker: Broker, late):
    with opened(broker) as client:
        client.socket.sendall(method(10, 50, b"\0\0\0\0\0\0\0", channel=0) + late)
        client.expect(commands.Connection.CloseOk)
        send_late(client, late)


@pytest.mark.differs_from_rabbitmq("waits for the client to end its side first")
def test_what_comes_between_our_close_and_its_answer_is_thrown_away(broker: Broker):
    with opened(broker) as client:
        client.send(commands.Basic.Qos(), 7)  # no such channel
        assert client.expect(commands.Connection.Close).reply_code == 504
        for name in ("heartbeats", "publishes", "a method", "a lot", "half a message"):
            send_late(client, LATE[name])
        client.send(commands.Connection.CloseOk())
        assert_a_clean_end(client)


@pytest.mark.differs_from_rabbitmq("waits for the client to end its side first")
def test_a_client_is_told_of_its_unreadable_frame_whatever_follows(broker: Broker):
    with opened(broker) as client:
        client.socket.sendall(frame(1, 1, b"\0\x14\0\x0a\0", end=b"\0") + b"\xff" * 4_000_000)
        assert client.expect(commands.Connection.Close).reply_code == 501
        send_late(client, b"\xff" * 1_000)
        assert_a_clean_end(client)


@pytest.mark.differs_from_rabbitmq("waits for the client to end its side first")
def test_deliveries_that_are_unsent_come_before_close_ok_and_the_end(broker: Broker):
    with opened(broker) as client, opened(broker) as publisher:
        name = client.declare()
        size, count = 100_000, 100
        client.call(commands.Basic.Consume(queue=name, no_ack=True), commands.Basic.ConsumeOk)
        publisher.send_bytes(message(name, bytes(size)) * count)
        publisher.call(commands.Basic.Qos(), commands.Basic.QosOk)
        client.send(GOODBYE)
        last, received = None, 0
        while not isinstance(last, commands.Connection.CloseOk):
            _, last = client.receive()
            received += len(last.value) if isinstance(last, body.ContentBody) else 0
        assert received > 0
        assert_a_clean_end(client)


def test_what_a_connection_had_is_free_when_its_close_is_answered(fresh_broker):
    broker = fresh_broker()
    door = ManagementDoor(broker)
    door.do("PUT", "user-limits", "guest", "max-connections", body={"value": 1})
    with opened(broker) as client:
        name = client.declare("mine")
        close(client)
        assert door.get("connections") == []
        assert door.ask("GET", "queues", "/", name)[0] == 404
        with opened(broker) as another:
            assert another.declare(name) == name
            assert len(door.get("connections")) == 1
    assert broker.terminate() == 0


@pytest.mark.differs_from_rabbitmq("waits for the length of a heartbeat's interval")
def test_no_heartbeats_are_sent_or_missed_behind_close_ok(broker: Broker):
    with opened(broker, beat=1) as client:
        close(client)
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            client.socket.sendall(HEARTBEAT)
            time.sleep(0.5)
        client.socket.setblocking(False)
        with suppress(BlockingIOError):
            assert client.socket.recv(1) == b""


def test_a_client_that_does_not_end_its_side_is_dropped_in_the_end(impatient_broker):
    with opened(impatient_broker) as client:
        close(client)
        wait_until(lambda: is_reset(client))


@pytest.mark.differs_from_rabbitmq("needs its data directory")
@pytest.mark.parametrize("let_in_as_far_as", ["its password", "its vhost"])
def test_the_socket_of_a_client_that_was_not_let_in_is_closed_at_once(broker, let_in_as_far_as):
    before = broker.sockets
    with RawClient(broker.host, broker.port) as client:
        client.start()
        if let_in_as_far_as == "its password":
            client.log_in(response=plain(password="wrong"))
        else:
            client.log_in()
            client.tune_ok()
            client.send(commands.Connection.Open("nowhere"))
        client.expect(commands.Connection.Close)
        client.send(commands.Connection.CloseOk())
        assert_a_clean_end(client)
        wait_until(lambda: broker.sockets <= before)


def test_over_tls_what_a_client_sends_behind_its_close_is_thrown_away_too(fresh_broker, tmp_path):
    authority = trustme.CA()
    file = tmp_path / "server.pem"
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(str(file))
    broker = fresh_broker(ROUTELOG_TLS_CERTIFICATE=str(file), ROUTELOG_TLS_PORT="0")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    alone = broker.sockets
    with RawClient(broker.host, tls_port(broker)) as client:
        wait_until(lambda: broker.sockets > alone)
        client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        client.open()
        client.open_channel()
        close(client)
        for late in LATE.values():
            send_late(client, late)
    wait_until(lambda: broker.sockets == alone)


@pytest.mark.parametrize("is_polite", [True, False])
def test_what_very_many_channels_held_is_back_in_order_when_their_connection_has_closed(
    broker: Broker, channel, name, is_polite: bool
) -> None:
    count = 400
    channel.queue_declare(name)
    for number in range(count):
        channel.basic_publish("", name, b"%d" % number)
    client = RawClient(broker.host, broker.port)
    client.open()
    for number in range(1, count + 1):
        client.open_channel(number)
    client.call(
        commands.Queue.Declare(queue=f"{name}-own", exclusive=True), commands.Queue.DeclareOk
    )
    for number in range(1, count + 1):
        client.send(commands.Basic.Qos(prefetch_count=1), number)
        client.send(commands.Basic.Consume(queue=name, consumer_tag=f"{number}"), number)
    wait_until(lambda: channel.queue_declare(name, passive=True).method.message_count == 0)
    if is_polite:
        client.send(GOODBYE, 0)
    client.socket.close()
    wait_until(lambda: channel.queue_declare(name, passive=True).method.message_count == count)
    channel.queue_declare(f"{name}-own", exclusive=True)
    got = [channel.basic_get(name, auto_ack=True) for _ in range(count)]
    assert [message[2] for message in got] == [b"%d" % number for number in range(count)]
    assert channel.queue_declare(name, passive=True).method.consumer_count == 0
