"""A connection: bytes in, bytes out, without a socket."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pamqp import commands
from support.byte_client import (
    LOGIN,
    PROTOCOL_HEADER,
    TUNE_OK,
    ByteClient,
    channel_opened,
    content,
    heartbeats,
    methods,
    running_broker,
)
from support.waiting import until

from routelog.amqp_front.connections import connection_methods
from routelog.amqp_front.wire.errors import HardError
from routelog.broker.process.broker import Broker
from routelog.broker.sockets.client_socket import OUTBOX_BYTES_MAX
from routelog.broker.waiting import consumer_gates
from routelog.broker.waiting.gate import UNLED
from routelog.log_backend import NotReplicated
from routelog.vhosts import FULL_PERMISSION, Queue

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPEN = methods(commands.Connection.Open("/"))
OPEN_OK = methods(commands.Connection.OpenOk())
CLOSE = methods(commands.Connection.Close(200, "bye", 0, 0))
CLOSE_OK = methods(commands.Connection.CloseOk())
CHANNEL_OPEN = methods(commands.Channel.Open(), channel=1)
CHANNEL_OPEN_OK = channel_opened(1)
SECRET = methods(commands.Connection.UpdateSecret("new", "it is old"))
SECRET_OK = methods(commands.Connection.UpdateSecretOk())


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    async with running_broker(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.mark.parametrize("step", [1 << 20, 7, 1])
async def test_however_the_bytes_are_cut_the_answers_are_the_same(
    broker: Broker, step: int
) -> None:
    client = ByteClient(broker)
    await client.send(PROTOCOL_HEADER, step)
    (start,) = await client.receive()
    assert start.mechanisms.split() == ["PLAIN", "AMQPLAIN"]
    await client.send(methods(LOGIN), step)
    (tune,) = await client.receive()
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131_072, 60)
    assert not client.was_opened
    for sent, answered in (
        (methods(TUNE_OK) + OPEN, OPEN_OK),
        (heartbeats(3), b""),
        (CHANNEL_OPEN, CHANNEL_OPEN_OK),
        (SECRET, SECRET_OK),
        (CLOSE, CLOSE_OK),
    ):
        await client.send(sent, step)
        await client.expect(answered)
    assert (client.was_opened, client.was_closed) == (1, 1)


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"AMQP\x00\x01\x00\x00", PROTOCOL_HEADER),
        (b"GET / HT", PROTOCOL_HEADER),
        (b"GE", PROTOCOL_HEADER),  # it cannot become the header any more
        (b"AMQP\x00\x00\x09\x01" + CHANNEL_OPEN, None),
        (b"AMQP\x01\x01\x00\x09" + OPEN, None),
        (b"AMQP\x00\x00\x09\x01" + methods(TUNE_OK), None),
    ],
)
async def test_who_speaks_another_protocol_is_dropped(
    broker: Broker, sent: bytes, answered: bytes | None
) -> None:
    client = ByteClient(broker)
    await client.send(sent)
    if answered is None:
        (start,) = await client.receive()
        assert isinstance(start, commands.Connection.Start)
    else:
        await client.expect(answered)
    await client.expect_end("close")


@pytest.mark.parametrize("tells", [True, False])
async def test_a_wrong_password_is_told_to_who_wants_to_hear_it(
    broker: Broker, tells: bool
) -> None:
    capabilities = {"capabilities": {"authentication_failure_close": True}} if tells else {}
    login = commands.Connection.StartOk(capabilities, "PLAIN", "\0guest\0wrong", "en_US")
    client = ByteClient(broker)
    await client.send(PROTOCOL_HEADER + methods(login))
    await client.receive()
    if tells:
        (close,) = await client.receive()
        assert close.reply_code == 403
        await client.send(CLOSE_OK)
    await client.expect_end("close")
    assert not client.was_opened


@pytest.mark.parametrize("end", ["deleted", "another one", "another password", "other tags"])
async def test_who_has_logged_in_is_looked_up_again_when_the_vhost_is_opened(
    broker: Broker, end: str
) -> None:
    users = broker.services.users
    await users.add_user("ann", b"ann")
    await users.set_permissions("ann", "/", FULL_PERMISSION)
    client = ByteClient(broker)
    login = commands.Connection.StartOk({}, "PLAIN", "\0ann\0ann", "en_US")
    await client.send(PROTOCOL_HEADER + methods(login, TUNE_OK))
    await client.receive(2)
    if end == "other tags":
        await users.set_tags("ann", ("monitoring",))
    elif end == "another password":
        await users.put_user(
            replace(users.get("ann"), password_hash=await users.hash_password(b"b"))
        )
    else:
        await users.delete_user("ann")
        if end == "another one":
            await users.add_user("ann", b"b")
            await users.set_permissions("ann", "/", FULL_PERMISSION)
    await client.send(OPEN)
    if end == "other tags":
        await client.expect(OPEN_OK)
        await client.send(CLOSE)
        await client.expect(CLOSE_OK)
    else:
        (close,) = await client.receive()
        assert close.reply_code == 403
        await client.send(CLOSE_OK)
        await client.expect_end("close")
    assert client.was_opened == (end == "other tags")
    if users.find("ann") is not None:
        await users.delete_user("ann")


@pytest.mark.parametrize("end", ["led", "led, with another password", "not led"])
async def test_who_opens_a_vhost_waits_until_the_node_knows_what_others_were_answered(
    broker: Broker, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, gate, client = broker.services.users, broker.services.gate, ByteClient(broker)
    await users.add_user("bob", b"bob")
    await users.set_permissions("bob", "/", FULL_PERMISSION)
    if end == "not led":
        monkeypatch.setattr(connection_methods, "LED_SECONDS_MAX", 0.01)
    gate.close_for(frozenset({UNLED, "disk"}))
    login = commands.Connection.StartOk({}, "PLAIN", "\0bob\0bob", "en_US")
    await client.send(PROTOCOL_HEADER + methods(login, TUNE_OK) + OPEN)
    await client.receive(2)
    if end != "not led":
        assert not client.transport.written
        if end != "led":
            changed = await users.hash_password(b"another")
            await users.put_user(replace(users.get("bob"), password_hash=changed))
        gate.close_for(frozenset({"disk"}))
    if end == "led":
        await client.expect(OPEN_OK)
        await client.send(CLOSE)
        await client.expect(CLOSE_OK)
    else:
        (close,) = await client.receive()
        assert close.reply_code == (320 if end == "not led" else 403)
        await client.send(CLOSE_OK)
        await client.expect_end("close")
    gate.close_for(frozenset())
    await users.delete_user("bob")


@pytest.mark.parametrize("password", ["guest", "wrong"])
async def test_who_is_not_served_is_told_so_whatever_its_login(
    broker: Broker, password: str
) -> None:
    client = ByteClient(broker, refusal="nobody leads")
    login = commands.Connection.StartOk({}, "PLAIN", f"\0guest\0{password}", "en_US")
    await client.send(PROTOCOL_HEADER + methods(login, TUNE_OK) + OPEN)
    _, tune, close = await client.receive(3)
    assert isinstance(tune, commands.Connection.Tune)
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - nobody leads")
    await client.send(CLOSE_OK)
    await client.expect_end("close")
    assert (client.was_opened, client.was_closed) == (0, 1)


REFUSED = {
    "no end of frame": (b"\x01\0\0\0\0\0\x04\0\x0a\0\x33\xcd", 501),
    "a frame above the limit": (b"\x01\0\0" + (1 << 20).to_bytes(4, "big") + b"\0" * 8, 501),
    "a frame of no kind": (b"\x09\0\0\0\0\0\x00\xce", 501),
    "a method twice": (OPEN, 504),
    "a method of channels": (methods(commands.Basic.Qos()), 504),
    "a channel above the limit": (methods(commands.Channel.Open(), channel=11), 530),
    "a channel that is not open": (methods(commands.Basic.Qos(), channel=2), 504),
    "a channel that is open": (CHANNEL_OPEN * 2, 504),
    "content before a publish": (CHANNEL_OPEN + content(b"x"), 505),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_breaks_the_protocol_closes_the_connection(broker: Broker, case: str) -> None:
    sent, code = REFUSED[case]
    client = await ByteClient(broker).open()
    await client.send(sent)
    answers = await client.receive(1 + sent.startswith(CHANNEL_OPEN))
    assert answers[-1].reply_code == code
    assert not client.was_closed
    await client.send(CHANNEL_OPEN + SECRET)  # not heard any more
    await client.send(CLOSE_OK)
    await client.expect_end("eof")
    assert client.was_closed == 1


async def test_both_may_close_at_the_same_time(broker: Broker) -> None:
    client = await ByteClient(broker).open()
    client.connection.shut_down(HardError(320, "it stops"))
    (close,) = await client.receive()
    assert (close.reply_code, "it stops" in close.reply_text) == (320, True)
    await client.send(CLOSE)
    await client.expect(CLOSE_OK)
    assert client.transport.end is None
    await client.send(CLOSE_OK)
    await client.expect_end("eof")


async def test_a_close_is_answered_when_too_few_nodes_store_what_ends_with_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await ByteClient(broker).open()
    connection, late = client.connection, asyncio.get_running_loop().create_future()
    monkeypatch.setattr(
        connection.vhost.definitions, "connection_closed", lambda _: asyncio.Future()
    )
    monkeypatch.setattr(
        connection, "services", replace(connection.services, in_time=lambda _: late)
    )
    await client.send(CLOSE)
    assert not client.was_closed
    late.set_exception(NotReplicated("too few nodes have stored it in 5 s"))
    await client.expect(CLOSE_OK)


async def test_who_has_not_logged_in_is_dropped_when_the_broker_stops(broker: Broker) -> None:
    client = ByteClient(broker)
    await client.send(PROTOCOL_HEADER)
    await client.receive()
    client.connection.shut_down(HardError(320, "it stops"))
    await client.expect_end("close")


async def test_a_command_that_waits_for_the_disk_keeps_those_behind_it_waiting(
    broker: Broker,
) -> None:
    client = await ByteClient(broker).open(1)
    declare = commands.Queue.Declare(queue="durable", durable=True)
    publish = methods(commands.Basic.Publish(routing_key="durable"), channel=1) + content(b"text")
    get = methods(commands.Basic.Get(queue="durable", no_ack=True), channel=1)
    await client.send(methods(declare, channel=1) + publish + get)
    assert not client.transport.reads
    declared, got, head, text = await client.receive(4)
    assert (declared.queue, got.message_count, head.body_size) == ("durable", 0, 4)
    assert text.value == b"text"
    await until(lambda: client.transport.reads)


async def test_who_publishes_to_a_queue_that_is_behind_is_not_read_until_consumers_have_caught_up(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_gates, "WAIT_SECONDS_MAX", 3600)
    monkeypatch.setattr(Queue, "is_behind", True)
    client = await ByteClient(broker).open(1)
    await client.send(methods(commands.Queue.Declare(queue="behind"), channel=1))
    await client.receive()
    publish = methods(commands.Basic.Publish(routing_key="behind"), channel=1) + content(b"text")
    await client.send(publish + SECRET + publish)
    hold, vhost = client.connection.hold, client.connection.vhost
    await until(lambda: hold.active)  # what it sent may take several turns
    assert (client.transport.reads, client.transport.written) == (False, b"")
    assert hold.reasons == set()  # so short a pause is no business of operators
    queue: Any = vhost.queues["behind"]
    assert queue.ready == 1
    queue.on_caught_up()
    await client.expect(SECRET_OK)
    await until(lambda: queue.ready == 2 and not client.transport.reads)
    monkeypatch.undo()
    queue.on_caught_up()
    await until(lambda: client.transport.reads)
    assert not hold.active


async def test_a_client_that_does_not_read_is_delivered_nothing_until_it_does(
    broker: Broker,
) -> None:
    client = await ByteClient(broker).open(1)
    consume = commands.Basic.Consume(queue="unread", no_ack=True, consumer_tag="c")
    await client.send(methods(commands.Queue.Declare(queue="unread"), consume, channel=1))
    await client.receive(2)
    client.connection.pause_writing()
    publish = methods(commands.Basic.Publish(routing_key="unread"), channel=1) + content(b"1")
    await client.send(publish + CHANNEL_OPEN.replace(b"\0\x01", b"\0\x02", 1))
    assert [type(each) for each in await client.receive()] == [commands.Channel.OpenOk]
    await client.send(methods(commands.Queue.Declare(queue="unread", passive=True), channel=2))
    (declared,) = await client.receive()
    assert declared.message_count == 1
    client.connection.resume_writing()
    delivered, _, text = await client.receive(3)
    assert (delivered.consumer_tag, text.value) == ("c", b"1")


async def test_a_client_that_leaves_much_unread_is_heard_no_more_until_it_reads(
    broker: Broker,
) -> None:
    client = await ByteClient(broker).open()
    client.transport.unread = OUTBOX_BYTES_MAX + 1
    client.connection.pause_writing()
    sending = asyncio.create_task(client.send(SECRET))  # it may be heard no more at once
    await until(lambda: not client.transport.reads)
    assert client.transport.written == b""
    client.transport.unread = 0
    client.connection.resume_writing()
    await client.expect(SECRET_OK)
    await sending
    await until(lambda: client.transport.reads)


@pytest.mark.parametrize("how", ["eof", "lost"])
async def test_what_was_its_own_goes_with_its_socket(broker: Broker, how: str) -> None:
    client = await ByteClient(broker).open(1)
    declare = commands.Queue.Declare(queue="q", exclusive=True)
    await client.send(methods(declare, channel=1))
    await client.receive()
    other = await ByteClient(broker).open(1)
    passive = methods(commands.Queue.Declare(queue="q", passive=True), channel=1)
    await other.send(passive)
    (refused,) = await other.receive()
    assert refused.reply_code == 405
    if how == "eof":
        assert client.connection.eof_received()
        await client.expect_end("close")
    client.connection.connection_lost(None)
    await until(lambda: client.was_closed)
    await other.send(methods(commands.Channel.CloseOk(), commands.Channel.Open(), channel=1))
    await other.expect(CHANNEL_OPEN_OK)
    await other.send(passive)
    (refused,) = await other.receive()
    assert refused.reply_code == 404
    assert client.was_closed == 1


async def test_it_is_dropped_when_heartbeats_are_missed(broker: Broker) -> None:
    client = await ByteClient(broker).open()
    client.connection.send_heartbeat()
    await client.expect(heartbeats())
    client.connection.missed_heartbeats()
    await client.expect_end("abort")


async def test_a_client_that_the_broker_does_not_read_has_missed_none(broker: Broker) -> None:
    client = await ByteClient(broker).open(1)
    declare = methods(commands.Queue.Declare(queue="another", durable=True), channel=1)
    await client.send(declare)
    client.connection.missed_heartbeats()
    assert isinstance((await client.receive())[0], commands.Queue.DeclareOk)


async def test_who_does_not_end_the_handshake_is_dropped(tmp_path: Path) -> None:
    async with running_broker(tmp_path, handshake_seconds=0.01) as broker:
        client = ByteClient(broker)
        await client.expect_end("abort")


async def test_one_that_was_given_up_before_it_was_connected_reads_nothing(broker: Broker) -> None:
    client = await ByteClient(broker).open()
    client.connection.abort("enough")
    await client.expect_end("abort")
    connection: Any = client.connection
    assert connection.socket.end_reason == "enough"
