"""Clients that read nothing, whatever else they do, and those that only read slowly."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import pytest
from pamqp import commands, heartbeat
from pamqp import frame as pamqp_frame
from scenarios.clients.raw_client import RawClient, message

TIMEOUT_SECONDS = 1.0
BACKLOG = 400  # messages of 100 kB: more than all buffers of both ends
DROPPED_SECONDS_MAX = 30.0

pytestmark = pytest.mark.differs_from_rabbitmq("its time cannot be set from here")


@pytest.fixture
def brisk(fresh_broker):
    """A broker that gives clients a second to take something."""
    return fresh_broker(ROUTELOG_SEND_TIMEOUT_SECONDS=str(TIMEOUT_SECONDS))


def other(broker, stack: ExitStack) -> RawClient:
    client = stack.enter_context(RawClient(broker.host, broker.port))
    client.open()
    client.open_channel()
    return client


def deaf(broker, stack: ExitStack, queue: str, beat: int) -> RawClient:
    """A client that consumes, and does not read what it is sent."""
    client = stack.enter_context(RawClient(broker.host, broker.port))
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    client.open(beat=beat)
    client.open_channel()
    client.call(commands.Basic.Consume(queue=queue), commands.Basic.ConsumeOk)
    return client


def consumers(client: RawClient, queue: str) -> int:
    asked = commands.Queue.Declare(queue=queue, passive=True)
    return int(client.call(asked, commands.Queue.DeclareOk).consumer_count)


@pytest.mark.parametrize("beat", [0, 1])
def test_a_client_that_reads_nothing_is_dropped_though_its_heart_beats(brisk, beat: int):
    with ExitStack() as stack:
        publisher = other(brisk, stack)
        queue = publisher.declare(exclusive=False, auto_delete=False)
        client = deaf(brisk, stack, queue, beat)
        assert consumers(publisher, queue) == 1
        publisher.send_bytes(message(queue, bytes(100_000)) * BACKLOG)
        deadline = time.monotonic() + DROPPED_SECONDS_MAX
        beating = pamqp_frame.marshal(heartbeat.Heartbeat(), 0)
        while consumers(publisher, queue):
            try:
                client.socket.send(beating)
            except OSError:
                continue  # the broker has dropped it
            assert time.monotonic() < deadline, "it is still there"
            time.sleep(0.1)
        found = publisher.call(
            commands.Queue.Declare(queue=queue, passive=True), commands.Queue.DeclareOk
        )
        assert found.message_count == BACKLOG
    assert "the client took nothing of what is sent for 1 s" in brisk.log_text()


def test_a_client_that_reads_slowly_is_kept(brisk):
    with ExitStack() as stack:
        publisher = other(brisk, stack)
        queue = publisher.declare(exclusive=False, auto_delete=False)
        client = deaf(brisk, stack, queue, 0)
        publisher.send_bytes(message(queue, bytes(100_000)) * BACKLOG)
        until = time.monotonic() + 5 * TIMEOUT_SECONDS
        while time.monotonic() < until:
            assert client.socket.recv(300_000, socket.MSG_WAITALL)
            time.sleep(TIMEOUT_SECONDS / 4)
        assert consumers(publisher, queue) == 1
    assert "the client took nothing" not in brisk.log_text()


def test_a_client_to_which_nothing_is_sent_is_kept(brisk):
    with ExitStack() as stack:
        client = other(brisk, stack)
        time.sleep(3 * TIMEOUT_SECONDS)
        client.declare()
