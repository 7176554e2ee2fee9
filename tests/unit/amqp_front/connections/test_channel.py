"""A channel: methods and content in, methods and content out, over a connection without a socket."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from pamqp import base, body, commands, header
from pamqp import frame as pamqp_frame
from support.byte_client import ByteClient, channel_opened, content, methods, running_broker
from support.waiting import until

from routelog.broker.process.broker import Broker

pytestmark = pytest.mark.asyncio(loop_scope="module")

Basic, Channel, Confirm, Queue, Tx = (
    commands.Basic,
    commands.Channel,
    commands.Confirm,
    commands.Queue,
    commands.Tx,
)
CLOSE, REOPEN = Channel.Close(200, "", 0, 0), (Channel.CloseOk(), Channel.Open())
GET = Basic.Get(queue="q")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    async with running_broker(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(broker: Broker) -> AsyncIterator[ByteClient]:
    """With channel 1, and a queue `q` of its own."""
    opened = await ByteClient(broker).open(1)
    await opened.send(sent(Queue.Declare(queue="q", exclusive=True)))
    await opened.receive()
    yield opened
    opened.connection.connection_lost(None)
    vhost = broker.services.vhosts.get("/")
    await until(lambda: "q" not in vhost.queues)  # the connection leaves in a turn of its own


def sent(*methods_or_texts: base.Frame | bytes, channel: int = 1) -> bytes:
    """Frames of a channel; a text is a message to the queue `q`."""
    return b"".join(
        methods(Basic.Publish(routing_key="q"), channel=channel) + content(each, channel=channel)
        if isinstance(each, bytes)
        else methods(each, channel=channel)
        for each in methods_or_texts
    )


def told(frame: Any) -> str:
    """A frame in short."""
    match frame:
        case header.ContentHeader():
            return f"{frame.body_size} bytes"
        case body.ContentBody():
            return str(frame.value.decode())
        case Channel.Close() | commands.Connection.Close():
            return f"{frame.name.split('.')[0]} {frame.reply_code}"
        case Basic.Ack() | Basic.Nack():
            return f"{frame.name} {frame.delivery_tag}{'+' if frame.multiple else ''}"
        case Basic.GetOk() | Basic.Deliver():
            return f"{frame.name} {frame.delivery_tag}{' again' if frame.redelivered else ''}"
        case Queue.DeclareOk():
            return f"{frame.message_count} ready, {frame.consumer_count} consumers"
        case _:
            return str(frame.name)


LOOK = Queue.Declare(queue="q", passive=True)
MANDATORY = methods(Basic.Publish(routing_key="nowhere", mandatory=True), channel=1) + content(b"x")

# What is sent on channel 1, as bytes or by `sent`, and what is told.
TALKS: dict[str, tuple[bytes, list[str]]] = {
    "flow": (sent(Channel.Flow(True)), ["Channel.FlowOk"]),
    "no flow": (sent(Channel.Flow(False)), ["Connection 540"]),
    "opened twice": (sent(Channel.Open()), ["Connection 504"]),
    "an answer that is none of a client": (sent(Queue.BindOk()), ["Connection 503"]),
    "a method where content is due": (
        sent(Basic.Publish(routing_key="q"), LOOK),
        ["Connection 505"],
    ),
    "a message": (
        sent(b"one", LOOK, GET),
        ["1 ready, 0 consumers", "Basic.GetOk 1", "3 bytes", "one"],
    ),
    "an empty message": (sent(b"", GET), ["Basic.GetOk 1", "0 bytes"]),
    "no message": (sent(GET), ["Basic.GetEmpty"]),
    "a message in pieces": (
        sent(Basic.Publish(routing_key="q"))
        + pamqp_frame.marshal(header.ContentHeader(0, 4, Basic.Properties()), 1)
        + b"".join(pamqp_frame.marshal(body.ContentBody(each), 1) for each in (b"ab", b"c", b"d"))
        + sent(GET),
        ["Basic.GetOk 1", "4 bytes", "abcd"],
    ),
    "confirms": (
        sent(Confirm.Select(), b"1", b"2"),
        ["Confirm.SelectOk", "Basic.Ack 2+"],
    ),
    "a return comes before its confirm": (
        sent(Confirm.Select()) + MANDATORY,
        ["Confirm.SelectOk", "Basic.Return", "1 bytes", "x", "Basic.Ack 1"],
    ),
    "nobody waits": (
        sent(Queue.Declare(queue="other", nowait=True), LOOK),
        ["0 ready, 0 consumers"],
    ),
    "what was not acknowledged comes again": (
        sent(b"1", GET, Basic.Nack(1, requeue=True), GET, Basic.Ack(2), GET),
        ["Basic.GetOk 1", "1 bytes", "1", "Basic.GetOk 2 again", "1 bytes", "1", "Basic.GetEmpty"],
    ),
    "what a closed channel had comes again": (
        sent(b"1", GET, CLOSE, Channel.Open(), GET),
        [
            *("Basic.GetOk 1", "1 bytes", "1", "Channel.CloseOk", "Channel.OpenOk"),
            *("Basic.GetOk 1 again", "1 bytes", "1"),
        ],
    ),
    "an unknown tag closes it": (sent(Basic.Ack(7), LOOK), ["Channel 406"]),
    "what is behind a refusal is not heard": (
        sent(Queue.Declare(queue="no", passive=True), b"1", LOOK, GET, *REOPEN, LOOK),
        ["Channel 404", "Channel.OpenOk", "0 ready, 0 consumers"],
    ),
    "a refusal finds all back": (
        sent(b"1", GET, Basic.Ack(7), *REOPEN, LOOK),
        ["Basic.GetOk 1", "1 bytes", "1", "Channel 406", "Channel.OpenOk", "1 ready, 0 consumers"],
    ),
    "what is before an unknown tag in a row is settled": (
        sent(b"1", b"2", b"3", GET, GET, GET, Basic.Ack(2))
        + sent(Basic.Ack(1), Basic.Ack(2), Basic.Ack(3), *REOPEN, LOOK),
        [
            *("Basic.GetOk 1", "1 bytes", "1", "Basic.GetOk 2", "1 bytes", "2"),
            *("Basic.GetOk 3", "1 bytes", "3", "Channel 406", "Channel.OpenOk"),
            "1 ready, 0 consumers",
        ],
    ),
    "both close": (
        sent(Basic.Ack(7), CLOSE, *REOPEN, LOOK),
        ["Channel 406", "Channel.CloseOk", "Channel.OpenOk", "0 ready, 0 consumers"],
    ),
    "a transaction": (
        sent(Tx.Select(), b"1", LOOK, Tx.Commit(), LOOK, b"2", Tx.Rollback(), LOOK),
        [
            *("Tx.SelectOk", "0 ready, 0 consumers", "Tx.CommitOk", "1 ready, 0 consumers"),
            *("Tx.RollbackOk", "1 ready, 0 consumers"),
        ],
    ),
    "a commit without a transaction": (sent(Tx.Commit()), ["Channel 406"]),
    "who deletes the queue of a consumer is answered first": (
        sent(Basic.Consume(queue="q", consumer_tag="c"), Queue.Delete(queue="q")),
        ["Basic.ConsumeOk", "Queue.DeleteOk", "Basic.Cancel"],
    ),
}


@pytest.mark.parametrize("talk", TALKS)
async def test_what_is_sent_is_answered_so(client: ByteClient, talk: str) -> None:
    stream, answers = TALKS[talk]
    await client.send(stream)
    assert [told(each) for each in await client.receive(len(answers))] == answers
    if not (answers and answers[-1].startswith("Connection")):
        await client.send(methods(Channel.Open(), channel=9))
        await client.expect(channel_opened(9))


async def test_a_consumer_of_another_channel_is_cancelled_at_once(client: ByteClient) -> None:
    await client.send(methods(Channel.Open(), channel=2))
    await client.receive()
    await client.send(sent(Basic.Consume(queue="q", consumer_tag="c"), channel=2))
    await client.receive()
    await client.send(sent(Queue.Delete(queue="q")))
    answers = [told(each) for each in await client.receive(2)]
    assert answers == ["Basic.Cancel", "Queue.DeleteOk"]


async def test_channels_share_nothing_but_their_connection(client: ByteClient) -> None:
    await client.send(methods(Channel.Open(), channel=2))
    await client.receive()
    await client.send(sent(b"1", GET))
    await client.receive(3)
    await client.send(sent(Basic.Ack(1), channel=2))
    assert [told(each) for each in await client.receive()] == ["Channel 406"]
    await client.send(sent(Basic.Ack(1), LOOK))
    assert [told(each) for each in await client.receive()] == ["0 ready, 0 consumers"]


async def test_access_is_granted_without_a_look(client: ByteClient) -> None:
    request = b"\0\x1e\0\x0a" + b"\x05/data" + b"\x1f"
    await client.send(b"\x01\0\x01\0\0\0\x0b" + request + b"\xce")
    await client.expect(b"\x01\0\x01\0\0\0\x06" + b"\0\x1e\0\x0b\0\x01" + b"\xce")
