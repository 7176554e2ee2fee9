"""Requests over HTTP beside plain ones: HEAD, OPTIONS, and clients that do not read the answer."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients
from support.waiting import wait_until

from routelog.management.server.routes import ROUTES

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")

QUEUES = 1_000  # what describes them fills the buffers of a socket


@contextmanager
def many_queues(broker: BrokerProcess, count: int) -> Iterator[None]:
    clients = Clients(broker.url)
    channel = clients.channel()
    for number in range(count):
        channel.queue_declare(f"{number}".rjust(250, "q"), exclusive=True)
    yield
    clients.close()


@pytest.fixture(scope="module")
def door(broker) -> ManagementDoor:
    return ManagementDoor(broker)


@pytest.mark.parametrize(
    "path", ["/overview", "/queues/%2F", "/exchanges/%2F/amq.topic", "/nowhere"]
)
def test_head_answers_as_get_does_without_the_body(door, path):
    status, headers, body = door.raw("GET", path)
    as_head = door.raw("HEAD", path)
    assert as_head[0] == status
    assert as_head[2] == b""
    assert as_head[1]["content-type"] == headers["content-type"]
    if "content-length" not in as_head[1]:
        assert path == "/queues/%2F"  # a list that takes more than a turn is told in pieces
        return
    length = int(as_head[1]["content-length"])
    assert abs(length - len(body)) < len(body) / 10  # counts and times change meanwhile


def test_head_of_a_long_list_tells_no_length(fresh_broker):
    broker = fresh_broker()
    door = ManagementDoor(broker)
    with many_queues(broker, 200):
        status, headers, body = door.raw("HEAD", "/queues")
        assert (status, body) == (200, b"")
        assert "content-length" not in headers
        assert len(door.get("queues")) == 200


def test_head_of_a_stored_log_tells_how_long_it_is(fresh_broker):
    broker = fresh_broker(ROUTELOG_FLUSH_SECONDS="0.05")
    door = ManagementDoor(broker)
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("kept", durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    for _ in range(10):
        channel.basic_publish("", "kept", b"x" * 1_000, PERSISTENT)
    clients.close()
    broker.restart()
    door = ManagementDoor(broker)
    path = "/logs/%2F/kept/0/records?start=0&end=10"
    _, headers, body = door.raw("GET", path)
    status, head, nothing = door.raw("HEAD", path)
    assert (status, nothing) == (200, b"")
    assert head["content-length"] == headers["content-length"] == str(len(body))
    assert head["routelog-offsets"] == headers["routelog-offsets"]


def test_options_names_the_methods_of_every_path_without_asking_who_wants_to_know(door):
    stranger = ManagementDoor.__new__(ManagementDoor)
    stranger.address, stranger.headers = door.address, {}
    for route in ROUTES:
        path = re.sub(r"\{\w+(:[^}]*)?\}", "q", route.path)
        status, headers, body = stranger.raw("OPTIONS", path)
        methods = set(headers["allow"].split(", "))
        assert (status, body) == (200, b""), path
        assert methods >= {*route.methods, "OPTIONS"}, path
    assert stranger.raw("OPTIONS", "/nowhere")[0] == 404


def test_what_a_path_cannot_do_names_what_it_can(door):
    status, headers, _ = door.raw("POST", "/overview")
    assert (status, headers["allow"]) == (405, "GET, HEAD, OPTIONS")


def test_who_does_not_read_a_long_answer_is_cut_off(impatient_broker):
    broker = impatient_broker
    door = ManagementDoor(broker)
    with many_queues(broker, QUEUES), socket.socket() as reader:
        before = broker.sockets
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        reader.connect((str(door.address.hostname), int(door.address.port or 0)))
        reader.sendall(
            b"GET /api/queues HTTP/1.1\r\nHost: h\r\nAuthorization: %s\r\n\r\n"
            % door.headers["Authorization"].encode()
        )
        assert reader.recv(17) == b"HTTP/1.1 200 OK\r\n"
        wait_until(lambda: broker.sockets == before)
