"""How bytes reach the broker: TLS, certificates that change, proxies, IPv6, Unix sockets."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import ssl
import struct
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import trustme
from pamqp import commands
from pika.exceptions import AMQPConnectionError
from scenarios.clients.raw_client import RawClient, message
from support.broker_process import BrokerFailed, BrokerProcess
from support.management_door import ManagementDoor
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("it has to be configured otherwise")

AUTHORITY = trustme.CA()
HEADER = b"AMQP\x00\x00\x09\x01"
PROXIED = b"PROXY TCP4 192.0.2.7 127.0.0.1 40312 5672\r\n"
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_ALL = {"configure": ".*", "write": ".*", "read": ".*"}
LOOPBACK_PROXIED = b"PROXY TCP4 127.0.0.1 127.0.0.1 40312 5672\r\n"


@pytest.fixture
def server_pem(tmp_path: Path) -> Path:
    """Key and certificate of `localhost`."""
    return written(tmp_path / "server.pem", AUTHORITY.issue_cert("localhost", "127.0.0.1"))


def written(file: Path, issued: trustme.LeafCert) -> Path:
    issued.private_key_and_cert_chain_pem.write_to_path(str(file))
    return file


def tls_port(broker: BrokerProcess) -> int:
    wait_until(lambda: "listening for TLS" in broker.log_text())
    found = re.findall(r"listening for TLS on \S+:(\d+)", broker.log_text())
    return int(found[-1])


def client_context(authority: trustme.CA = AUTHORITY) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


def connected(
    port: int, context: ssl.SSLContext | None, **parameters: object
) -> pika.BlockingConnection:
    options = None if context is None else pika.SSLOptions(context, "localhost")
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", port, ssl_options=options, **parameters)
    )


def round_trip(connection: pika.BlockingConnection, body: bytes = b"over") -> None:
    with contextlib.closing(connection):
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        channel.basic_publish("", queue, body)
        assert channel.basic_get(queue, auto_ack=True)[2] == body


def shown_serial(port: int) -> int:
    with (
        socket.create_connection(("127.0.0.1", port), 5) as raw,
        client_context().wrap_socket(raw, server_hostname="localhost") as secured,
    ):
        certificate: Any = secured.getpeercert()
        return int(certificate["serialNumber"], 16)


# -- TLS


def test_a_client_works_over_tls_with_small_and_large_messages(fresh_broker, server_pem) -> None:
    broker = fresh_broker(ROUTELOG_TLS_CERTIFICATE=str(server_pem), ROUTELOG_TLS_PORT="0")
    port = tls_port(broker)
    round_trip(connected(port, client_context()))
    round_trip(connected(port, client_context()), os.urandom(3_000_000))
    round_trip(pika.BlockingConnection(pika.URLParameters(broker.url)))


def test_operators_see_which_connections_are_encrypted(fresh_broker, server_pem) -> None:
    broker = fresh_broker(ROUTELOG_TLS_CERTIFICATE=str(server_pem), ROUTELOG_TLS_PORT="0")
    secured = connected(tls_port(broker), client_context())
    plain = pika.BlockingConnection(pika.URLParameters(broker.url))
    with contextlib.closing(secured), contextlib.closing(plain):
        listed = {each["port"]: each["ssl"] for each in ManagementDoor(broker).get("connections")}
    assert listed == {tls_port(broker): True, broker.port: False}


def test_plain_bytes_old_versions_and_silence_on_the_tls_port_end_and_disturb_nobody(
    fresh_broker, server_pem
) -> None:
    broker = fresh_broker(
        ROUTELOG_TLS_CERTIFICATE=str(server_pem),
        ROUTELOG_TLS_PORT="0",
        ROUTELOG_CONNECTIONS_UNAUTHENTICATED_MAX="4",
    )
    port = tls_port(broker)
    for _ in range(10):  # more than may be opening at a time: each of them has left nothing behind
        with socket.create_connection(("127.0.0.1", port), 5) as raw:
            raw.sendall(HEADER)
            with contextlib.suppress(ConnectionResetError):
                assert not raw.recv(8).startswith(b"AMQP")
    old = client_context()
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.minimum_version = ssl.TLSVersion.TLSv1
    with (
        socket.create_connection(("127.0.0.1", port), 5) as raw,
        pytest.raises(ssl.SSLError, match=r"NO_PROTOCOLS|PROTOCOL_VERSION|NO_CIPHERS"),
    ):
        old.wrap_socket(raw, server_hostname="localhost")
    silent = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(4)]
    with socket.create_connection(("127.0.0.1", port), 5) as fifth:
        fifth.settimeout(60)
        assert fifth.recv(1) == b""  # there is no room for it until the silent ones are dropped
    for each in silent:
        each.settimeout(60)
        assert each.recv(1) == b""
        each.close()
    round_trip(connected(port, client_context()))


def test_a_key_that_everybody_may_read_is_warned_of(fresh_broker, server_pem) -> None:
    warning = f"{server_pem} has a private key, and everybody on this machine may read it"
    environment = {"ROUTELOG_TLS_CERTIFICATE": str(server_pem), "ROUTELOG_TLS_PORT": "0"}
    server_pem.chmod(0o640)
    broker = fresh_broker(**environment)
    assert warning not in broker.log_text()
    broker.terminate()
    server_pem.chmod(0o644)
    broker.start()
    assert warning in broker.log_text()


def test_a_certificate_renewed_on_disk_is_shown_after_sighup(fresh_broker, server_pem) -> None:
    broker = fresh_broker(ROUTELOG_TLS_CERTIFICATE=str(server_pem), ROUTELOG_TLS_PORT="0")
    port = tls_port(broker)
    first = shown_serial(port)
    with contextlib.closing(connected(port, client_context())) as open_before:
        written(server_pem, AUTHORITY.issue_cert("localhost"))
        os.kill(broker.pid, signal.SIGHUP)
        wait_until(lambda: shown_serial(port) != first)
        second = shown_serial(port)
        server_pem.write_text("nothing that could be a certificate")
        os.kill(broker.pid, signal.SIGHUP)
        wait_until(lambda: "certificates stay as they were" in broker.log_text())
        assert shown_serial(port) == second
        assert open_before.channel().is_open


def test_a_certificate_that_cannot_be_used_stops_the_start_with_its_name(fresh_broker) -> None:
    with pytest.raises(BrokerFailed, match=r"TLS certificate /nowhere\.pem: No such file"):
        fresh_broker(ROUTELOG_TLS_CERTIFICATE="/nowhere.pem", ROUTELOG_TLS_PORT="0")


# -- clients' certificates


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that asks for certificates; its only user is `app`."""
    folder = tmp_path_factory.mktemp("mutual")
    AUTHORITY.cert_pem.write_to_path(str(folder / "authority.pem"))
    certificate = written(folder / "server.pem", AUTHORITY.issue_cert("localhost"))
    environment = {
        "ROUTELOG_TLS_CERTIFICATE": str(certificate),
        "ROUTELOG_TLS_AUTHORITIES": str(folder / "authority.pem"),
        "ROUTELOG_TLS_VERIFY": "optional",
        "ROUTELOG_TLS_LOGIN_FROM": "common_name",
        "ROUTELOG_TLS_PORT": "0",
        "ROUTELOG_DEFAULT_USER": "app",
        "ROUTELOG_DEFAULT_PASSWORD": "secret",
    }
    broker = BrokerProcess(folder / "data", environment)
    try:
        yield broker.start()
    finally:
        broker.stop()


EXTERNAL = pika.credentials.ExternalCredentials


def test_a_certificate_logs_in_the_user_that_it_names(mutual) -> None:
    context = client_context()
    AUTHORITY.issue_cert("app@example.com", common_name="app").configure_cert(context)
    connection = connected(tls_port(mutual), context, credentials=EXTERNAL())
    rows = ManagementDoor(mutual, ("app", "secret")).get("connections")
    round_trip(connection)
    (row,) = [each for each in rows if each["auth_mechanism"] == "EXTERNAL"]
    assert row["ssl_protocol"] in ("tlsv1.2", "tlsv1.3")
    assert row["ssl_cipher"]
    assert "CN=app" in row["peer_cert_subject"]
    assert row["peer_cert_issuer"]
    assert " - " in row["peer_cert_validity"]
    assert row["user_who_performed_action"] == "app"


@pytest.mark.parametrize("common_name", ["App", "app ", "other", None])
def test_a_certificate_of_somebody_else_logs_nobody_in(mutual, common_name) -> None:
    context = client_context()
    AUTHORITY.issue_cert("app@example.com", common_name=common_name).configure_cert(context)
    with pytest.raises(AMQPConnectionError):
        connected(tls_port(mutual), context, credentials=EXTERNAL())
    # Clients that prefer EXTERNAL to their password are not offered it.
    password = pika.PlainCredentials("app", "secret")
    round_trip(connected(tls_port(mutual), context, credentials=password))


def test_without_a_certificate_external_is_neither_offered_nor_taken(mutual) -> None:
    with pytest.raises(AMQPConnectionError):
        connected(tls_port(mutual), client_context(), credentials=EXTERNAL())
    with pytest.raises(AMQPConnectionError):
        connected(mutual.port, None, credentials=EXTERNAL())
    password = pika.PlainCredentials("app", "secret")
    round_trip(connected(tls_port(mutual), client_context(), credentials=password))


def test_a_certificate_of_a_stranger_is_refused_in_the_handshake(mutual) -> None:
    context = client_context()
    trustme.CA().issue_cert("app@example.com", common_name="app").configure_cert(context)
    with pytest.raises((AMQPConnectionError, OSError)):
        connected(tls_port(mutual), context, credentials=EXTERNAL())


# -- behind a proxy


def proxied(port: int, header: bytes) -> bytes:
    """What a client is answered to its protocol header behind a PROXY header; empty: dropped."""
    with socket.create_connection(("127.0.0.1", port), 5) as raw:
        raw.sendall(header + HEADER)
        with contextlib.suppress(ConnectionResetError):
            return raw.recv(4_096)
        return b""


def tcp(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), 5)


def login(
    raw: socket.socket, header: bytes = b"", user: str = "guest", password: str = "guest"
) -> bytes:
    """What a user is answered, up to connection.tune."""
    start_ok = pika.spec.Connection.StartOk({}, "PLAIN", f"\0{user}\0{password}", "en_US")
    with raw:
        raw.settimeout(60)
        raw.sendall(header + HEADER)
        assert raw.recv(4_096)[7:11] == struct.pack(">HH", 10, 10)
        method = struct.pack(">HH", 10, 11) + b"".join(start_ok.encode())
        raw.sendall(struct.pack(">BHI", 1, 0, len(method)) + method + b"\xce")
        return raw.recv(4_096)


def test_a_proxied_client_counts_as_where_it_comes_from(fresh_broker) -> None:
    broker = fresh_broker(ROUTELOG_PROXY_PROTOCOL_SOURCES="127.0.0.0/8")
    assert login(tcp(broker), LOOPBACK_PROXIED)[7:11] == struct.pack(">HH", 10, 30)
    assert login(tcp(broker), PROXIED) == b""  # guest is for this machine only
    wait_until(lambda: "192.0.2.7:40312" in broker.log_text())


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY UNKNOWN\r\n",
        SIGNATURE + b"\x20\x00\x00\x00",  # LOCAL: a health check of the proxy
        SIGNATURE + b"\x21\x31\x00\xd8" + bytes(216),  # a Unix socket of the proxy's machine
    ],
)
def test_a_client_whom_the_proxy_does_not_name_is_not_local(fresh_broker, header: bytes) -> None:
    broker = fresh_broker(ROUTELOG_PROXY_PROTOCOL_SOURCES="127.0.0.0/8")
    assert login(tcp(broker), header) == b""
    wait_until(lambda: "0.0.0.0:" in broker.log_text())


def test_the_built_in_password_is_for_this_machine_whatever_the_user(fresh_broker) -> None:
    settings = {"ROUTELOG_PROXY_PROTOCOL_SOURCES": "127.0.0.0/8"}
    broker = fresh_broker(**settings)
    door = ManagementDoor(broker)
    door.do("PUT", "users", "admin", body={"password": "guest", "tags": "administrator"})
    door.do("PUT", "permissions", "/", "admin", body=_ALL)
    assert login(tcp(broker), LOOPBACK_PROXIED, "admin")[7:11] == struct.pack(">HH", 10, 30)
    assert login(tcp(broker), PROXIED, "admin") == b""
    door.do("PUT", "users", "admin", body={"password": "other", "tags": "administrator"})
    assert login(tcp(broker), PROXIED, "admin", "other")[7:11] == struct.pack(">HH", 10, 30)


def test_a_proxy_that_sends_no_header_is_dropped(fresh_broker) -> None:
    broker = fresh_broker(ROUTELOG_PROXY_PROTOCOL_SOURCES="127.0.0.0/8,2001:db8::/32")
    assert proxied(broker.port, b"") == b""
    assert proxied(broker.port, b"PROXY nonsense\r\n") == b""
    assert proxied(broker.port, LOOPBACK_PROXIED).startswith(b"\x01\x00\x00")


def test_a_proxy_header_from_anywhere_else_is_no_amqp(fresh_broker) -> None:
    broker = fresh_broker(ROUTELOG_PROXY_PROTOCOL_SOURCES="192.0.2.0/24")
    assert proxied(broker.port, LOOPBACK_PROXIED) == HEADER
    round_trip(pika.BlockingConnection(pika.URLParameters(broker.url)))


def test_a_proxy_header_comes_before_tls(fresh_broker, server_pem) -> None:
    broker = fresh_broker(
        ROUTELOG_PROXY_PROTOCOL_SOURCES="127.0.0.0/8",
        ROUTELOG_TLS_CERTIFICATE=str(server_pem),
        ROUTELOG_TLS_PORT="0",
    )
    with socket.create_connection(("127.0.0.1", tls_port(broker)), 5) as raw:
        raw.sendall(PROXIED)
        with client_context().wrap_socket(raw, server_hostname="localhost") as secured:
            secured.sendall(HEADER)
            assert secured.recv(4_096).startswith(b"\x01\x00\x00")


def test_a_network_that_is_none_stops_the_start(fresh_broker) -> None:
    with pytest.raises(BrokerFailed, match=r"PROXY_PROTOCOL_SOURCES: 10\.0\.0\.1/8 has host bits"):
        fresh_broker(ROUTELOG_PROXY_PROTOCOL_SOURCES="10.0.0.1/8")


# -- other addresses


def test_clients_come_over_a_unix_socket_and_are_local(fresh_broker, tmp_path) -> None:
    path = tmp_path / "amqp.sock"
    broker = fresh_broker(ROUTELOG_UNIX_SOCKET=str(path))
    broker.kill()
    broker.start()  # the file that the first run left behind is no obstacle
    raw = socket.socket(socket.AF_UNIX)
    raw.connect(str(path))
    assert login(raw)[7:11] == struct.pack(">HH", 10, 30)


def test_a_broker_listens_on_several_addresses_of_both_families(tmp_path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.host = "127.0.0.1,::1"
    try:
        broker.start()
        for host in ("127.0.0.1", "::1"):
            parameters = pika.ConnectionParameters(host, broker.port)
            round_trip(pika.BlockingConnection(parameters))
    finally:
        broker.stop()


def test_a_client_that_reads_nothing_over_tls_is_dropped(fresh_broker, server_pem) -> None:
    broker = fresh_broker(
        ROUTELOG_TLS_CERTIFICATE=str(server_pem),
        ROUTELOG_TLS_PORT="0",
        ROUTELOG_SEND_TIMEOUT_SECONDS="1",
    )
    with RawClient("127.0.0.1", tls_port(broker)) as deaf:
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        deaf.socket = client_context().wrap_socket(deaf.socket, server_hostname="localhost")
        deaf.open()
        deaf.open_channel()
        queue = deaf.declare(exclusive=False, auto_delete=False)
        deaf.call(commands.Basic.Consume(queue=queue), commands.Basic.ConsumeOk)
        with RawClient(broker.host, broker.port) as publisher:
            publisher.open()
            publisher.open_channel()
            publisher.send_bytes(message(queue, bytes(100_000)) * 400)
            asked = commands.Queue.Declare(queue=queue, passive=True)
            deadline = time.monotonic() + 30
            while publisher.call(asked, commands.Queue.DeclareOk).consumer_count:
                assert time.monotonic() < deadline, "it is still there"
                time.sleep(0.1)
    assert "the client took nothing of what is sent for 1 s" in broker.log_text()
