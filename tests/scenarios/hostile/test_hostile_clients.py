"""Clients that are right in every frame and still mean no good: floods, haste, and sudden ends."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import ExitStack

import pytest
from pamqp import commands
from pamqp import frame as pamqp_frame
from scenarios.clients.bad_input import assert_nobody_noticed
from scenarios.clients.raw_client import PROTOCOL_HEADER, Dropped, RawClient, message, plain

UNAUTHENTICATED_MAX = 20
FLOOD = 60
COMMANDS = 20_000
ROUNDS = 30
BACKLOG = 200
SERVED_SECONDS_MAX = 60.0


def opened(broker, stack: ExitStack) -> RawClient:
    client = stack.enter_context(RawClient(broker.host, broker.port))
    client.open()
    client.open_channel()
    return client


def wait_until_served(broker) -> None:
    """The broker notices, sooner or later, that the flood is over."""
    deadline = time.monotonic() + SERVED_SECONDS_MAX
    while True:
        try:
            with ExitStack() as stack:
                opened(broker, stack)
            return
        except Dropped:
            assert time.monotonic() < deadline, "nobody is served after the flood"


def test_connections_that_do_not_log_in_are_limited(fresh_broker) -> None:
    broker = fresh_broker(
        ROUTELOG_CONNECTIONS_UNAUTHENTICATED_MAX=str(UNAUTHENTICATED_MAX),
        ROUTELOG_HANDSHAKE_SECONDS="60",  # the oldest above the limit are not kept until then
    )
    with ExitStack() as stack:
        friend = opened(broker, stack)
        flood = [stack.enter_context(RawClient(broker.host, broker.port)) for _ in range(FLOOD)]
        served = 0
        for client in reversed(flood):  # when the last one is answered, all have been accepted
            try:
                client.start()
                served += 1
            except Dropped:
                pass
        assert served == UNAUTHENTICATED_MAX
        friend.declare()
    wait_until_served(broker)


def test_a_client_that_is_gone_before_its_login_is_refused_leaves_no_fault(fresh_broker) -> None:
    broker = fresh_broker()
    wrong = commands.Connection.StartOk({}, "PLAIN", plain("nobody", "guess"))
    for _ in range(10 * ROUNDS):  # one in three or so is gone when the broker looks
        client = socket.create_connection((broker.host, broker.port))
        client.sendall(PROTOCOL_HEADER + pamqp_frame.marshal(wrong, 0))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    with ExitStack() as stack:
        opened(broker, stack).declare()  # its login waited behind theirs
    assert broker.terminate() == 0
    assert "Traceback" not in broker.log_text()


def test_a_flood_of_methods_is_answered_to_the_last(broker, bystander) -> None:
    with ExitStack() as stack:
        client = opened(broker, stack)
        flood = pamqp_frame.marshal(commands.Basic.Qos(prefetch_count=1), 1)
        client.socket.setblocking(True)
        client.send_bytes(flood * COMMANDS)
        for _ in range(COMMANDS):
            client.expect(commands.Basic.QosOk)
        client.declare()
    assert_nobody_noticed(broker, bystander)


def test_a_queue_that_is_deleted_while_its_message_is_loaded_answers_the_get(
    fresh_broker,
) -> None:
    broker = fresh_broker(ROUTELOG_MEMORY_TAIL_BYTES=str(1 << 20), ROUTELOG_FLUSH_SECONDS="0.02")
    with ExitStack() as stack:
        getter, deleter = opened(broker, stack), opened(broker, stack)
        for number in range(ROUNDS):
            name = f"cold{number}"
            deleter.declare(name, exclusive=False, durable=True)
            deleter.send_bytes(message(name, b"x" * 100_000, b"\x10\0\x02") * 15)
            deleter.declare()
            time.sleep(0.05)  # most rounds: until the first of them are on disk only
            getter.send(commands.Basic.Get(queue=name, no_ack=True), 1)
            deleter.call(commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)
            number_of, answer = getter.receive()
            if isinstance(answer, commands.Basic.GetOk):
                getter.receive_content()
                continue
            assert isinstance(answer, commands.Channel.Close)
            assert (number_of, answer.reply_code, answer.class_id, answer.method_id) == (
                1,
                404,
                60,
                70,
            )
            getter.send(commands.Channel.CloseOk(), 1)
            getter.open_channel()


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_client_that_ends_its_side_and_reads_no_more_holds_nothing(
    broker, bystander, no_ack: bool
) -> None:
    with ExitStack() as stack:
        other = opened(broker, stack)
        name = other.declare(exclusive=False, auto_delete=False)
        client = stack.enter_context(RawClient(broker.host, broker.port))
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.open()
        client.open_channel()
        client.call(commands.Basic.Consume(queue=name, no_ack=no_ack), commands.Basic.ConsumeOk)
        other.send_bytes(message(name, bytes(100_000)) * BACKLOG)
        other.call(commands.Basic.Qos(), commands.Basic.QosOk)
        time.sleep(0.2)  # until the broker has filled the socket
        client.socket.shutdown(socket.SHUT_WR)
        asked = commands.Queue.Declare(queue=name, passive=True)
        deadline = time.monotonic() + SERVED_SECONDS_MAX
        while (found := other.call(asked, commands.Queue.DeclareOk)).consumer_count:
            assert time.monotonic() < deadline, "its consumer is still there"
        assert found.message_count == BACKLOG if not no_ack else found.message_count
        other.call(commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)
    assert_nobody_noticed(broker, bystander)


def test_consumers_by_the_thousand_cost_their_connection_and_nobody_else(broker, bystander) -> None:
    with ExitStack() as stack:
        client = opened(broker, stack)
        name = client.declare()
        consume = [
            commands.Basic.Consume(queue=name, consumer_tag=f"{number}", nowait=True)
            for number in range(1_024)
        ]
        for channel in range(2, 19):
            client.open_channel(channel)
            client.send_bytes(b"".join(pamqp_frame.marshal(each, channel) for each in consume))
        closed = client.expect(commands.Connection.Close)
        assert closed.reply_code == 530
    assert_nobody_noticed(broker, bystander)
