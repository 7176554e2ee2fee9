"""No secret gets into the log, into an answer, or to who listens to the log, whatever fails."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress

import pika
import pytest
from pamqp import commands
from scenarios.clients.raw_client import PROTOCOL_HEADER, Dropped, RawClient, method, short
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients, Inbox, declare

pytestmark = pytest.mark.differs_from_rabbitmq("needs its log")

SECRET = "tr0ub4dor-and-3"
BASIC = b64encode(f"guest:{SECRET}".encode()).decode()
HASH = b64encode(b"salt" + SECRET.encode().ljust(32, b"x")).decode()
PLANTED = (
    SECRET,
    BASIC,
    HASH,
    b64encode(SECRET.encode()).decode(),
    b64encode(f"\0guest\0{SECRET}".encode()).decode(),
    SECRET.encode().hex(),
)

HEAD = b"GET /api/whoami HTTP/1.1\r\nHost: h\r\n"
AUTHORIZATION = b"Authorization: Basic " + BASIC.encode()
BROKEN_REQUESTS = {
    "line feed behind it": HEAD + AUTHORIZATION + b"\n\r\n\r\n",
    "line feed in it": HEAD + AUTHORIZATION + b"\nx\r\n\r\n",
    "carriage return in it": HEAD + AUTHORIZATION + b"\rx\r\n\r\n",
    "zero byte": HEAD + AUTHORIZATION + b"\0\r\n\r\n",
    "control character": HEAD + AUTHORIZATION + b"\x01\x7f\r\n\r\n",
    "folded": HEAD + b"Authorization: Basic\r\n " + BASIC.encode() + b"\r\n\r\n",
    "no colon": HEAD + b"Authorization Basic " + BASIC.encode() + b"\r\n\r\n",
    "space before the colon": HEAD + b"Authorization : Basic " + BASIC.encode() + b"\r\n\r\n",
    "twice": HEAD + AUTHORIZATION + b"\r\n" + AUTHORIZATION + b"\r\n\r\n",
    "too long": HEAD + AUTHORIZATION + BASIC.encode() * 4_000 + b"\r\n\r\n",
    "unknown scheme": HEAD + b"Authorization: Digest " + BASIC.encode() + b"\r\n\r\n",
    "no base64": HEAD + b"Authorization: Basic " + SECRET.encode() + b"\r\n\r\n",
    "a bearer": HEAD + b"Authorization: Bearer " + SECRET.encode() + b"\r\n\r\n",
    "a log token": HEAD + b"Authorization: Bearer rl1." + SECRET.encode() + b"\r\n\r\n",
    "wrong password": HEAD + AUTHORIZATION + b"\r\n\r\n",
    "as the method": SECRET.encode() + b"\x01 / HTTP/1.1\r\n\r\n",
    "as the version": b"GET / " + SECRET.encode() + b"\r\n\r\n",
    "as the port": f"GET http://guest:{SECRET}@h:x{SECRET}/api HTTP/1.1\r\n\r\n".encode(),
    "in the address": f"GET http://guest:{SECRET}@h/api/whoami HTTP/1.1\r\n\r\n".encode(),
    "in the query": f"GET /api/whoami?password={SECRET} HTTP/1.1\r\nHost: h\r\n\r\n".encode(),
    "as a bad host": f"GET http://[{SECRET}/ HTTP/1.1\r\nHost: [{SECRET}\r\n\r\n".encode(),
    "as the length": HEAD + f"Content-Length: {SECRET}\r\n\r\n".encode(),
    "as the encoding": HEAD + f"Transfer-Encoding: {SECRET}, chunked\r\n\r\n".encode(),
    "as a chunk": HEAD + f"Transfer-Encoding: chunked\r\n\r\n{SECRET}\r\n".encode(),
    "as a packed body": HEAD
    + f"Content-Encoding: gzip\r\nContent-Length: {len(SECRET)}\r\n\r\n{SECRET}".encode(),
    "as an expectation": HEAD + f"Expect: {SECRET}\r\nContent-Length: 1\r\n\r\n".encode(),
    "as an upgrade": HEAD + f"Upgrade: {SECRET}\r\nConnection: upgrade\r\n\r\n{SECRET}".encode(),
    "behind a request": HEAD + b"\r\n" + SECRET.encode() + b"\0\r\n\r\n",
    "as TLS": b"\x16\x03\x01" + SECRET.encode(),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    limits = {"ROUTELOG_LOG_LEVEL": "debug", "ROUTELOG_HANDSHAKE_SECONDS": "5"}
    process = BrokerProcess(tmp_path_factory.mktemp("secrets"), limits).start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def heard(world: BrokerProcess) -> Iterator[Inbox]:
    """What somebody hears who may bind to the log."""
    clients = Clients(world.url)
    channel = clients.channel()
    queue = declare(channel)
    channel.queue_bind(queue, "amq.rabbitmq.log", "#")
    channel.queue_bind(queue, "amq.rabbitmq.event", "#")
    yield Inbox(channel, queue, auto_ack=True)
    clients.close()


@pytest.fixture(autouse=True)
def nothing_leaks(world: BrokerProcess, heard: Inbox) -> Iterator[None]:
    yield
    heard.channel.connection.process_data_events(0.1)
    headers = [str(properties.headers) for _, properties, _ in heard.deliveries]
    said = world.log_text() + b"".join(heard.bodies).decode() + "".join(headers)
    assert_clean(said)
    assert "Traceback" not in said
    assert "an error of the broker" not in said


def assert_clean(said: str) -> None:
    found = [
        (each, said[max(0, said.index(each) - 300) :][:400]) for each in PLANTED if each in said
    ]
    assert not found


def answer_to(world: BrokerProcess, request: bytes) -> bytes:
    door = ManagementDoor(world, None)
    received = b""
    with socket.create_connection((door.address.hostname, door.address.port), timeout=60) as client:
        client.sendall(request)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            while piece := client.recv(65_536):
                received += piece
    return received


@pytest.mark.parametrize("request_", BROKEN_REQUESTS.values(), ids=BROKEN_REQUESTS)
def test_a_malformed_request_is_answered_without_what_it_said(
    world: BrokerProcess, request_: bytes
) -> None:
    answer = answer_to(world, request_)
    assert_clean(answer.decode(errors="replace"))
    assert b"Traceback" not in answer
    assert b"HTTP/1.1 200" not in answer
    if b"HTTP/1.1 400" in answer:
        assert len(answer) < 1_000
        assert answer.endswith(b'{"error":"bad_request","reason":"malformed request"}')


@pytest.mark.parametrize("path", ["/api/whoami", "/nowhere"])
@pytest.mark.parametrize(("octets", "status"), [(b"", b"417"), (b"\xff", b"400")])
def test_an_unknown_expectation_is_not_quoted(
    world: BrokerProcess, path: str, octets: bytes, status: bytes
) -> None:
    door = ManagementDoor(world, None)
    head = f"GET {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: {SECRET}".encode()
    address = door.address.hostname, door.address.port
    with socket.create_connection(address, timeout=60) as client:
        client.sendall(head + octets + b"\r\n\r\n")
        answer = b""
        while piece := client.recv(65_536):  # until the server closes
            answer += piece
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert_clean(answer.decode())


USERS = {"users": [{"name": "u", "password_hash": HASH, "tags": "", "hashing_algorithm": "x"}]}
SHOVEL = {"component": "shovel", "vhost": "/", "name": "s"}
SHOVEL_VALUE = {"src-uri": f"amqp://u:{SECRET}@h", "password": SECRET}
BAD_BODIES = {
    "no JSON": ("PUT", "/users/u", b'{"password": "%s"' % SECRET.encode()),
    "no object": ("PUT", "/users/u", b'["%s"]' % SECRET.encode()),
    "no tags": ("PUT", "/users/u", b'{"password": "%s"}' % SECRET.encode()),
    "a wrong type": ("PUT", "/users/u", b'{"password": ["%s"], "tags": ""}' % SECRET.encode()),
    "a wrong tag": ("PUT", "/users/u", json.dumps({"password": SECRET, "tags": "\x00"}).encode()),
    "a right one": ("PUT", "/users/u", json.dumps({"password": SECRET, "tags": ""}).encode()),
    "a wrong hash": (
        "PUT",
        "/users/u",
        json.dumps({"password_hash": SECRET, "tags": ""}).encode(),
    ),
    "no UTF-8": ("PUT", "/users/u", b'{"password": "%s\xff"}' % SECRET.encode()),
    "a bad hash in definitions": ("POST", "/definitions", json.dumps(USERS).encode()),
    "a shovel": (
        "POST",
        "/definitions",
        json.dumps({"parameters": [{**SHOVEL, "value": SHOVEL_VALUE}]}).encode(),
    ),
    "a kept shovel": (
        "POST",
        "/definitions?unknown=keep",
        json.dumps({"parameters": [{**SHOVEL, "value": SHOVEL_VALUE}]}).encode(),
    ),
    "a parameter": ("PUT", "/parameters/shovel/%2F/s", json.dumps({"value": SECRET}).encode()),
    "a global parameter": ("PUT", "/global-parameters/p", json.dumps({"value": SECRET}).encode()),
}


@pytest.mark.parametrize(("verb", "path", "body"), BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_body_is_not_quoted(world: BrokerProcess, verb: str, path: str, body: bytes) -> None:
    _, _, answer = ManagementDoor(world).raw(verb, path, body)
    assert_clean(answer.decode())
    stranger = ManagementDoor(world, ("guest", SECRET))
    status, _, answer = stranger.raw(verb, path, body)
    assert status == 401
    assert_clean(answer.decode())


def test_a_chunk_that_is_none_is_not_quoted(world: BrokerProcess) -> None:
    door = ManagementDoor(world)
    for body in (f"{SECRET}\r\n", f'5\r\n{{"a":\r\n{SECRET}\r\n'):
        request = (
            f"PUT /api/users/u HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
        )
        said = request.replace(
            "\r\n\r\n", f"\r\nAuthorization: {door.headers['Authorization']}\r\n\r\n", 1
        )
        assert_clean(answer_to(world, said.encode()).decode())


LOGINS = {
    "a wrong password": ("PLAIN", f"\0guest\0{SECRET}"),
    "no such user": ("PLAIN", f"\0nobody\0{SECRET}"),
    "too few parts": ("PLAIN", SECRET),
    "too many parts": ("PLAIN", f"\0guest\0{SECRET}\0{SECRET}\0"),
    "as who acts": ("PLAIN", f"{SECRET}\0guest\0{SECRET}"),
    "a table": ("AMQPLAIN", b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS" + b"\x00\x00\x00\x0f"),
    "no table": ("AMQPLAIN", SECRET),
    "EXTERNAL": ("EXTERNAL", SECRET),
    "another mechanism": ("SCRAM", SECRET),
}


@pytest.mark.parametrize(("mechanism", "response"), LOGINS.values(), ids=LOGINS)
def test_a_login_is_refused_without_what_proves_it(
    world: BrokerProcess, mechanism: str, response: str | bytes
) -> None:
    raw = response.encode() if isinstance(response, str) else response + SECRET.encode()
    properties = b"\0\0\0\0"
    start_ok = properties + short(mechanism) + len(raw).to_bytes(4, "big") + raw + short("en_US")
    with RawClient(world.host, world.port) as client:
        client.start()
        client.send_bytes(method(10, 11, start_ok, channel=0))
        with suppress(Dropped, OSError):
            client.wait_until_dropped()


def test_what_comes_on_the_port_of_amqp_is_not_quoted(world: BrokerProcess) -> None:
    for said in (
        HEAD + AUTHORIZATION + b"\r\n\r\n",
        PROTOCOL_HEADER + SECRET.encode() * 100,
        PROTOCOL_HEADER + method(10, 11, b"\0\0\0\xff" + SECRET.encode(), channel=0),
        PROTOCOL_HEADER + method(10, 11, b"\0\0\0\x10\x01aS" + SECRET.encode(), channel=0),
    ):
        with socket.create_connection((world.host, world.port), timeout=60) as client:
            client.sendall(said)
            client.shutdown(socket.SHUT_WR)
            with suppress(OSError):
                while client.recv(65_536):
                    pass


def test_a_renewed_secret_and_messages_are_not_quoted(world: BrokerProcess) -> None:
    with RawClient(world.host, world.port) as client:
        client.open()
        client.call(
            commands.Connection.UpdateSecret(SECRET, "rotation"),
            commands.Connection.UpdateSecretOk,
            channel=0,
        )
    channel = Clients(world.url).channel()
    for exchange in ("", "none"):
        properties = pika.BasicProperties(headers={"password": SECRET}, user_id="another")
        with suppress(pika.exceptions.AMQPError):
            channel.basic_publish(exchange, "q", SECRET.encode(), properties)
            channel.connection.process_data_events(0.1)


def test_the_start_does_not_quote_its_configuration(tmp_path) -> None:
    (tmp_path / "key.pem").write_text(f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n")
    (tmp_path / "definitions.json").write_text(json.dumps(USERS))
    for bad in (
        {"ROUTELOG_TLS_CERTIFICATE": str(tmp_path / "key.pem")},
        {"ROUTELOG_DEFINITIONS_FILE": str(tmp_path / "definitions.json")},
        {"ROUTELOG_DEFINITIONS_FILE": str(tmp_path / "key.pem")},
        {"ROUTELOG_REMOTE_STORAGE": f"s3://key:{SECRET}@"},
    ):
        process = BrokerProcess(
            tmp_path / "data",
            {"ROUTELOG_LOG_LEVEL": "debug", "ROUTELOG_DEFAULT_PASSWORD": SECRET, **bad},
        )
        try:
            with suppress(Exception):
                process.start()
        finally:
            process.stop()
        assert_clean(process.log_text())


def test_who_has_no_tag_cannot_listen_to_the_log(world: BrokerProcess) -> None:
    door = ManagementDoor(world)
    for tags, may in (
        ("", False),
        ("management", False),
        ("policymaker", False),
        ("monitoring", True),
    ):
        user, password = door.add_user(f"listener-{tags}", tags)
        clients = Clients(f"amqp://{user}:{password}@{world.host}:{world.port}/")
        channel = clients.channel()
        queue = f"of-{user}"
        channel.queue_declare(queue)
        own = ManagementDoor(world, (user, password))
        status = 201
        if tags:
            path = f"/bindings/%2F/e/amq.rabbitmq.log/q/{queue}"
            status = own.raw("POST", path, b'{"routing_key": "#"}')[0]
        if may:
            assert status == 201
            channel.queue_bind(queue, "amq.rabbitmq.log", "error")
        else:
            assert status == (401 if tags else 201)
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
                channel.queue_bind(queue, "amq.rabbitmq.log", "#")
            assert refused.value.reply_code == 403
        if tags == "policymaker":  # nor by a way around
            around = {
                "pattern": "^amq.rabbitmq.log$",
                "apply-to": "exchanges",
                "definition": {"alternate-exchange": "amq.fanout"},
            }
            own.do("PUT", "policies", "/", "around", body=around)
            channel = clients.channel()
            channel.queue_bind(queue, "amq.fanout")
            inbox = Inbox(channel, queue, auto_ack=True)
            ManagementDoor(world, ("nobody", "x")).raw("GET", "/whoami")
            channel.connection.process_data_events(0.3)
            assert inbox.deliveries == []
            own.do("DELETE", "policies", "/", "around")
