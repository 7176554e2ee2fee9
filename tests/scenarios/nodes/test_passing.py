"""Two nodes: clients connect to the one that does not lead, and notice nothing before its leader ends."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import aio_pika
import pika
import pytest
import trustme
from pika.credentials import ExternalCredentials
from pika.exceptions import AMQPConnectionError, ConnectionClosedByBroker
from support.broker_process import COMMAND_VARIABLE, ROOT, BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients, drain
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("its nodes find each other otherwise")

HERE = Path(__file__).parent
GUEST = {"login": "guest", "password": "guest"}


@dataclass
class PassingNode:
    """The process of `passing_node.py`."""

    process: subprocess.Popen[str]
    amqp: int = 0
    tls: int = 0
    http: int = 0

    def wait_for(self, pattern: str) -> re.Match[str]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.match(pattern, line):
                return found
        raise AssertionError(f"it ended before it said {pattern}")

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.wait_for(f"told {line}")

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.amqp}/"


@dataclass
class Two:
    """Both nodes."""

    leading: BrokerProcess
    passing: PassingNode
    authority: trustme.CA

    def lead(self) -> None:
        """The passing node learns of the leader's process."""
        found = re.findall(r"^cluster port=(\d+)$", self.leading.log_text(), re.MULTILINE)
        self.passing.tell(f"leader {self.leading.pid} {found[-1]}")

    def connections(self) -> list[dict[str, object]]:
        return list(ManagementDoor(self.leading).get("connections"))


@pytest.fixture
def two(
    fresh_broker: Callable[..., BrokerProcess], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Two]:
    program = HERE / "leading_broker.py"
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(program)]))
    leading = fresh_broker(ROUTELOG_TLS_LOGIN_FROM="common_name")
    authority = trustme.CA()
    certificate, pem = tmp_path / "server.pem", tmp_path / "ca.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(certificate)
    authority.cert_pem.write_to_path(pem)
    process = subprocess.Popen(
        [sys.executable, str(HERE / "passing_node.py"), str(certificate), str(pem)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(HERE.parents[1])])},
    )
    passing = PassingNode(process)
    try:
        ready = passing.wait_for(r"ready amqp=(\d+) tls=(\d+) http=(\d+)")
        passing.amqp, passing.tls, passing.http = map(int, ready.groups())
        both = Two(leading, passing, authority)
        both.lead()
        yield both
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def clients(two: Two) -> Iterator[Clients]:
    opened = Clients(two.passing.url)
    yield opened
    opened.close()


async def test_aio_pika_works_through_a_node_that_does_not_lead(two: Two) -> None:
    async with await aio_pika.connect(two.passing.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("q", durable=True)
        bodies = [b"%d" % n * 1_000 for n in range(500)]
        exchange = channel.default_exchange
        await asyncio.gather(*(exchange.publish(aio_pika.Message(b), "q") for b in bodies))
        got = [await queue.get() for _ in bodies]
        assert sorted(each.body for each in got) == sorted(bodies)
        for each in got:
            await each.ack()
        assert (
            await channel.declare_queue("q", passive=True)
        ).declaration_result.message_count == 0


def test_operators_see_the_clients_address_and_the_node_that_it_has_connected_to(
    two: Two, clients: Clients
) -> None:
    connection = clients.connect()
    (row,) = two.connections()
    own = connection._impl._transport._sock.getsockname()
    assert (row["peer_host"], row["peer_port"]) == own
    assert (row["host"], row["port"]) == ("127.0.0.1", two.passing.amqp)
    assert row["name"] == f"127.0.0.1:{own[1]} -> 127.0.0.1:{two.passing.amqp}"
    assert row["ssl"] is False


def test_tls_ends_at_the_node_and_the_leader_logs_the_certificates_user_in(two: Two) -> None:
    door = ManagementDoor(two.leading)
    door.do("PUT", "users", "app", body={"password_hash": "", "tags": ""})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    door.do("PUT", "permissions", "/", "app", body=everything)
    for name in ("stranger", "app"):
        context = ssl.create_default_context()
        two.authority.configure_trust(context)
        two.authority.issue_cert("a@example.com", common_name=name).configure_cert(context)
        parameters = pika.ConnectionParameters(
            "localhost",
            two.passing.tls,
            ssl_options=pika.SSLOptions(context, "localhost"),
            credentials=ExternalCredentials(),
        )
        if name == "stranger":
            with pytest.raises(AMQPConnectionError):
                pika.BlockingConnection(parameters)
            continue
        with pika.BlockingConnection(parameters):
            (row,) = two.connections()
            assert (row["user"], row["ssl"], row["auth_mechanism"]) == ("app", True, "EXTERNAL")


def test_http_is_passed_on(two: Two) -> None:
    passed = ManagementDoor(two.leading)
    passed.address = passed.address._replace(netloc=f"127.0.0.1:{two.passing.http}")
    assert passed.do("PUT", "queues", "/", "made", body={"durable": True}) is None
    (queue,) = ManagementDoor(two.leading).get("queues")
    assert passed.get("queues") == [queue]
    assert passed.ask("GET", "overview")[1]["node"].startswith("routelog@")
    passed.headers = {}
    assert passed.ask("GET", "queues")[0] == 401


def test_a_thousand_connections_are_passed_on_and_counted_once(two: Two) -> None:
    parameters = pika.URLParameters(two.passing.url)
    opened = [pika.BlockingConnection(parameters) for _ in range(1_000)]
    assert len(two.connections()) == 1_000
    assert all(each.is_open for each in opened)
    for each in opened:
        each.close()
    wait_until(lambda: not two.connections())


def test_clients_without_a_login_are_dropped_by_the_leader(two: Two) -> None:
    silent: list[socket.socket] = []

    def drops() -> bool:
        # A few at a time: the node that passes them on drops those that are too many for itself.
        silent.extend(socket.create_connection(("127.0.0.1", two.passing.amqp)) for _ in range(20))
        return "too many connections of AMQP" in two.leading.log_text()

    wait_until(drops)
    assert len(silent) > 255
    with pika.BlockingConnection(pika.URLParameters(two.passing.url)) as connection:
        assert connection.is_open
    for each in silent:
        each.close()


def test_a_consumer_that_does_not_read_costs_the_node_no_memory(two: Two, clients: Clients) -> None:
    channel = clients.channel()
    channel.queue_declare("large", durable=True)
    body = bytes(1024 * 1024)
    for _ in range(64):
        channel.basic_publish("", "large", body, PERSISTENT)
    slow = clients.connect().channel()
    slow.basic_consume("large", lambda *_: None, auto_ack=True)
    before = resident(two.passing.process.pid)
    time.sleep(1.0)  # the client reads nothing meanwhile: most of it stays with the leader
    assert resident(two.passing.process.pid) < before + 16 * 1024 * 1024
    channel.basic_publish("", "large", b"others go on", PERSISTENT)


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# -- the leader's end


def test_a_leader_that_is_killed_ends_its_connections_and_what_was_confirmed_is_there(
    two: Two, clients: Clients
) -> None:
    channel = clients.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    for number in range(20):
        channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
    two.leading.kill()
    with pytest.raises(ConnectionClosedByBroker) as closed:
        channel.connection.process_data_events(time_limit=5)
    assert closed.value.reply_code == 320
    assert "the connection with the leader is lost" in closed.value.reply_text
    two.leading.start()
    two.lead()
    assert drain(clients.channel(), "q") == [b"%d" % number for number in range(20)]


async def test_a_robust_client_comes_back_when_another_process_leads(two: Two) -> None:
    connection = await aio_pika.connect_robust(two.passing.url, reconnect_interval=0.1)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("q", durable=True)
        arrived: asyncio.Queue[bytes] = asyncio.Queue()

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            await arrived.put(message.body)

        await queue.consume(take, no_ack=True)
        ended = asyncio.Event()
        reasons: list[object] = []

        def note_end(_: object, reason: object) -> None:
            reasons.append(reason)
            ended.set()

        connection.close_callbacks.add(note_end)
        await asyncio.to_thread(two.passing.tell, "nobody")
        await asyncio.wait_for(ended.wait(), 60)
        assert "another node leads now: transient messages" in str(reasons[0])
        await asyncio.to_thread(two.leading.restart)
        await asyncio.to_thread(two.lead)
        await asyncio.wait_for(connection.connected.wait(), 60)
        async with await aio_pika.connect(two.leading.url) as direct:
            exchange = (await direct.channel()).default_exchange
            await exchange.publish(aio_pika.Message(b"m", delivery_mode=2), "q")
        assert await asyncio.wait_for(arrived.get(), 60) == b"m"


def test_a_leader_that_stops_says_so_itself(two: Two, clients: Clients) -> None:
    connection = clients.connect()
    stopping = threading.Thread(target=two.leading.terminate)
    stopping.start()
    with pytest.raises(ConnectionClosedByBroker) as closed:
        connection.process_data_events(time_limit=10)
    stopping.join()
    assert (closed.value.reply_code, "shutdown" in closed.value.reply_text) == (320, True)


async def test_without_a_leader_clients_are_told_so_after_the_wait(two: Two) -> None:
    two.passing.tell("nobody")
    began = time.monotonic()
    url = f"amqp://guest:guest@127.0.0.1:{two.passing.amqp}/"
    # aiormq names the method that refuses it, and not its text
    with pytest.raises(aio_pika.exceptions.AMQPError, match=r"got <Connection\.Close"):
        await aio_pika.connect(url)
    assert time.monotonic() - began > 0.5
    # As connection.close answers connection.open, pika takes it for a vhost that the user may not enter.
    with pytest.raises(AMQPConnectionError, match=r"\(320\) .*no node takes clients: nobody leads"):
        await asyncio.to_thread(pika.BlockingConnection, pika.URLParameters(url))
