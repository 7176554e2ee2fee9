"""Mistakes before connection.open-ok: what is answered, what is dropped, and when."""

from __future__ import annotations

import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pamqp import commands
from scenarios.clients.bad_input import Broker, Row, assert_nobody_noticed, assert_outcome, each
from scenarios.clients.bystander import Bystander
from scenarios.clients.raw_client import (
    FRAME_METHOD,
    PROTOCOL_HEADER,
    Dropped,
    Outcome,
    RawClient,
    frame,
    plain,
)

DROP_SECONDS_MAX = 9.0  # 3 s of deliberate delay at most, and air: before the deadline
DEADLINE_SECONDS = (9.5, 60.0)  # the broker under test has a handshake deadline of 10 s
TLS_HELLO = bytes.fromhex("160301006e0100006a0303") + bytes(range(100))
START_OK_OF_9000_BYTES = frame(FRAME_METHOD, 0, struct.pack(">HH", 10, 11) + b"x" * 8_988)


def sends(raw: bytes):
    """Send this instead of a protocol header."""
    return lambda client: client.send_bytes(raw)


def logs_in(**log_in):
    """Start properly, then log in like this."""

    def act(client: RawClient) -> None:
        client.start()
        client.log_in(**log_in)

    return act


def tunes(**tune_ok):
    """Log in properly, then answer connection.tune like this and go on."""

    def act(client: RawClient) -> None:
        client.start()
        client.log_in()
        client.tune_ok(**tune_ok)
        client.send(commands.Connection.Open())

    return act


def sends_after_start(*values):
    """Send these frames where start-ok is due."""

    def act(client: RawClient) -> None:
        client.start()
        for value in values:
            client.send_bytes(value) if isinstance(value, bytes) else client.send(value)

    return act


def opens_before_tune_ok(client: RawClient) -> None:
    client.start()
    client.log_in()
    client.expect(commands.Connection.Tune)
    client.send(commands.Connection.Open())


def logs_in_twice(client: RawClient) -> None:
    client.start()
    client.log_in()
    client.expect(commands.Connection.Tune)
    client.log_in()


def opens_a_channel_before_the_connection(client: RawClient) -> None:
    client.start()
    client.log_in()
    client.tune_ok()
    client.send(commands.Channel.Open(), 1)


def opens_vhost(vhost: str):
    """Log in properly and ask for this virtual host."""

    def act(client: RawClient) -> None:
        client.start()
        client.log_in()
        client.tune_ok()
        client.send(commands.Connection.Open(vhost))

    return act


START_OK = commands.Connection.StartOk({}, "PLAIN", plain())
WRONG = plain(password="wrong")
REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
    "For details see the broker logfile."
)
AMQPLAIN = "\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x05guest"
DROPS = "drops the socket instead"

ROWS = [
    Row("an http request", sends(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "header"),
    Row("eight garbage bytes", sends(b"\xff\x00\xfe\x01\xfd\x02\xfc\x03"), "header"),
    Row("a tls client hello", sends(TLS_HELLO), "header"),
    Row("protocol 0-8", sends(b"AMQP\1\1\x08\0"), "header", rabbit="starts 0-8"),
    Row("protocol 0-9", sends(b"AMQP\1\1\0\x09"), "start"),
    Row("protocol 0-9-2", sends(b"AMQP\0\0\x09\2"), "header"),
    Row("protocol 0-10", sends(b"AMQP\1\1\0\x0a"), "header"),
    Row("protocol 1-0", sends(b"AMQP\0\1\0\0"), "header"),
    Row("a mechanism not offered", logs_in(mechanism="MAGIC"), "drop"),
    Row("a wrong password, told", logs_in(response=WRONG), "connection", 403, REFUSED),
    Row("an unknown user, told", logs_in(response=plain("nobody")), "connection", 403, REFUSED),
    Row("a wrong password, not told", logs_in(response=WRONG, capabilities={}), "drop"),
    Row("a plain response without nuls", logs_in(response="guest", capabilities={}), "drop"),
    Row("an empty plain response", logs_in(response="", capabilities={}), "drop"),
    Row("amqplain", logs_in(mechanism="AMQPLAIN", response=AMQPLAIN), "tune"),
    Row("open before start-ok", sends_after_start(commands.Connection.Open()), "drop"),
    Row("start-ok twice", logs_in_twice, "drop"),
    Row("open before tune-ok", opens_before_tune_ok, "drop"),
    Row("start-ok of 9000 bytes", sends_after_start(START_OK_OF_9000_BYTES), "drop"),
    Row("start-ok said to be 4 GiB", sends_after_start(b"\1\0\0\xff\xff\xff\xff"), "drop"),
    Row("frame-max 1", tunes(frame_max=1), "connection", 530, rabbit=DROPS),
    Row("frame-max 4095", tunes(frame_max=4_095), "connection", 530, rabbit=DROPS),
    Row("frame-max 4096", tunes(frame_max=4_096), "open"),
    Row("frame-max above the server's", tunes(frame_max=131_073), "connection", 530, rabbit=DROPS),
    Row("frame-max unlimited", tunes(frame_max=0), "connection", 530, rabbit=DROPS),
    Row(
        "channel-max above the server's", tunes(channel_max=2_048), "connection", 530, rabbit=DROPS
    ),
    Row("channel-max unlimited", tunes(channel_max=0), "connection", 530, rabbit=DROPS),
    Row("a channel before open", opens_a_channel_before_the_connection, "connection", 505),
    Row(
        "an unknown vhost",
        opens_vhost("nowhere"),
        *("connection", 530, "NOT_ALLOWED - vhost nowhere not found"),
    ),
]

ANSWERS = {
    commands.Connection.Start: "start",
    commands.Connection.Tune: "tune",
    commands.Connection.OpenOk: "open",
}


def handshake_outcome(client: RawClient) -> Outcome:
    """What the handshake came to: a header, an answer, a close, or the end without a word."""
    try:
        _, value = client.receive(DROP_SECONDS_MAX)
    except Dropped:
        return Outcome("drop")
    if isinstance(value, commands.Connection.Close):
        client.send(commands.Connection.CloseOk())
        client.wait_until_dropped()
        return Outcome("connection", value.reply_code or 0, value.reply_text)
    if type(value) in ANSWERS:
        return Outcome(ANSWERS[type(value)])
    assert value.name == "ProtocolHeader", value
    assert (value.major_version, value.minor_version, value.revision) == (0, 9, 1)
    client.wait_until_dropped()
    return Outcome("header")


@each(ROWS)
def test_a_handshake_mistake_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    with RawClient(broker.host, broker.port) as client:
        row.act(client)
        assert_outcome(row, handshake_outcome(client))
    assert_nobody_noticed(broker, bystander)


def test_the_offered_protocol_header_is_exactly_0_9_1(broker: Broker):
    with RawClient(broker.host, broker.port) as client:
        client.send_bytes(b"GET / HTTP/1.1\r\n")
        assert client.receive_bytes(8) == PROTOCOL_HEADER


def test_a_start_ok_of_nearly_4096_bytes_is_read(broker: Broker):
    with RawClient(broker.host, broker.port) as client:
        client.start()
        client.send(commands.Connection.StartOk({"note": "x" * 3_900}, "PLAIN", plain()))
        client.expect(commands.Connection.Tune)


def stops_talking(beginning: bytes):
    """Send this, and nothing more."""

    def act(client: RawClient) -> None:
        client.send_bytes(beginning)
        if beginning == PROTOCOL_HEADER:
            client.expect(commands.Connection.Start)
        client.wait_until_dropped(DEADLINE_SECONDS[1])

    return act


def drips(client: RawClient) -> None:
    client.start()
    dripped = b"\1\0\0\0\0\x0f\xff" + b"\0" * 200
    for index in range(len(dripped)):
        client.send_bytes(dripped[index : index + 1])
        if has_ended(client, 0.1):
            break


SLOW = {
    "says nothing": stops_talking(b""),
    "stops within the header": stops_talking(b"AMQP"),
    "stops behind the header": stops_talking(PROTOCOL_HEADER),
    "drips": drips,
}


@pytest.fixture(scope="module")
def lasted(broker: Broker) -> dict[str, float]:
    """For how many seconds each of the slow peers was heard, all of them at once."""

    def seconds(act) -> float:
        with RawClient(broker.host, broker.port) as client:
            begun = time.monotonic()
            act(client)
            return time.monotonic() - begun

    with ThreadPoolExecutor(len(SLOW)) as threads:
        return dict(zip(SLOW, threads.map(seconds, SLOW.values()), strict=True))


@pytest.mark.parametrize("slow", SLOW)
def test_who_is_slow_is_dropped_at_the_handshake_deadline(
    broker: Broker, bystander: Bystander, lasted: dict[str, float], slow: str
):
    assert DEADLINE_SECONDS[0] < lasted[slow] < DEADLINE_SECONDS[1]
    assert_nobody_noticed(broker, bystander)


def has_ended(client: RawClient, seconds: float) -> bool:
    """Whether the socket is closed within this time."""
    try:
        client.wait_until_dropped(seconds)
    except TimeoutError:
        return False
    return True


def test_connections_that_never_speak_do_not_keep_others_out(broker: Broker, bystander: Bystander):
    silent = [RawClient(broker.host, broker.port) for _ in range(10)]
    assert_nobody_noticed(broker, bystander)
    for client in silent:
        client.socket.close()
