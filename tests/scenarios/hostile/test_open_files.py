"""More connections than the process may have open files: what is published goes on."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from scenarios.clients.raw_client import PROTOCOL_HEADER, Dropped, RawClient
from support.broker_process import COMMAND_VARIABLE, BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients, ready_count
from support.ports import free_port

FILES = 256  # of the broker; half of them are the log's
FLOOD = 300  # connections to each port
BODY = os.urandom(40_000)
BODIES = 100  # some twenty segments and journal files
WITHOUT_LOGIN = b"GET /api/overview HTTP/1.1\r\nHost: broker\r\n\r\n"

pytestmark = pytest.mark.differs_from_rabbitmq("its limit of files cannot be set from here")


STANDBYS = free_port()  # where the broker listens for them


@pytest.fixture
def cramped(fresh_broker, monkeypatch) -> BrokerProcess:
    """A broker of few files, whose log opens another one all the time."""
    limited = [
        "sh",
        "-c",
        f'ulimit -n {FILES} && exec "$0" "$@"',
        sys.executable,
        "-m",
        "routelog",
    ]
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join(limited))
    return fresh_broker(
        ROUTELOG_JOURNAL_FILE_BYTES=str(1 << 20),
        ROUTELOG_SEGMENT_BYTES=str(1 << 18),
        ROUTELOG_FLUSH_SECONDS="0.02",
        ROUTELOG_HANDSHAKE_SECONDS="60",  # the flood is not over by itself
        ROUTELOG_STANDBY_LISTEN=f"127.0.0.1:{STANDBYS}",
        ROUTELOG_CLUSTER_SECRET="a secret of this test",
    )


def files(broker: BrokerProcess) -> int:
    return len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))


def flood(stack: ExitStack, host: str, port: int, said: bytes) -> None:
    for _ in range(FLOOD):
        client = stack.enter_context(socket.create_connection((host, port)))
        client.sendall(said)


def test_a_flood_of_connections_takes_no_file_from_the_log(cramped):
    door = ManagementDoor(cramped)
    clients = Clients(cramped.url)
    channel = clients.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    with ExitStack() as stack:
        flood(stack, cramped.host, door.address.port, WITHOUT_LOGIN)  # kept alive behind a 401
        flood(stack, cramped.host, door.address.port, b"")
        flood(stack, cramped.host, cramped.port, PROTOCOL_HEADER)
        flood(stack, "127.0.0.1", STANDBYS, b"")
        for _ in range(BODIES):
            channel.basic_publish("", "q", BODY, PERSISTENT)  # a nack would be an error
        assert files(cramped) < FILES
        with RawClient(cramped.host, cramped.port) as honest:
            honest.open()
        assert door.get("health", "checks", "alarms")["status"] == "ok"
        (node,) = door.get("nodes")
        assert (node["fd_total"], node["sockets_total"]) == (FILES, 84)
    assert ready_count(channel, "q") == BODIES
    clients.close()
    said = cramped.log_text()
    for protocol in ("HTTP", "AMQP", "nodes"):  # again when the machine takes more than ten seconds
        assert 1 <= said.count(f"too many connections of {protocol}") < FLOOD // 10
    assert "ERROR" not in said
    assert "Traceback" not in said


def test_connections_that_have_logged_in_stay_and_the_next_are_closed_at_once(fresh_broker):
    broker = fresh_broker(ROUTELOG_CONNECTIONS_MAX="3")
    with ExitStack() as stack:
        friends = []
        for _ in range(3):
            friends.append(stack.enter_context(RawClient(broker.host, broker.port)))
            friends[-1].open()
            friends[-1].open_channel()
        with RawClient(broker.host, broker.port) as stranger:
            stranger.wait_until_dropped(10)
        for friend in friends:
            friend.declare()
        friends[0].socket.close()
        wait_until_admitted(broker)


def wait_until_admitted(broker: BrokerProcess) -> None:
    """The broker notices that a client has left."""
    for _ in range(200):
        with RawClient(broker.host, broker.port) as client:
            try:
                client.open()
                return
            except (Dropped, OSError):
                continue
    pytest.fail("nobody is admitted")
