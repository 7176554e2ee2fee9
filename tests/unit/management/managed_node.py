"""A node in this process as the HTTP API sees it, and requests that are made of it without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast
from unittest import mock

import msgspec
from aiohttp import StreamReader
from aiohttp.test_utils import make_mocked_request
from support.queue_samples import Node, declare_queue, running_node

from routelog.broker import ProcessState
from routelog.broker.node.delivery_samples import DeliverySamples
from routelog.log_backend import Backups, Histogram, Reason, StoredLogs, SystemDisk
from routelog.management.calls.answer import Answer, Empty, Listing, Pieces, Value, as_json
from routelog.management.calls.broker_side import (
    BrokerSide,
    FindingLimits,
    NodeFacts,
    WatchedBroker,
)
from routelog.management.calls.call import Call
from routelog.management.calls.caller import Caller
from routelog.management.calls.listing import items_of
from routelog.management.calls.log_tokens import LogTokens
from routelog.management.calls.operation import UNSAID, Query, operation_of
from routelog.management.calls.request_origin import HostNames
from routelog.management.sampling.sampler import Sampler
from routelog.mirror_cluster import ReplicaState
from routelog.vhosts import (
    AccessRefused,
    AnswerFailed,
    AnswerPieces,
    BatchOutcome,
    BrowsedMessage,
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    GlobalParameters,
    LoopbackRule,
    MessageSearch,
    MovedMessage,
    MoveOrder,
    MoveReport,
    NodeAnswer,
    Permission,
    Queue,
    QueueProperties,
    ReturnReason,
    TakenMessage,
    User,
    UserDirectory,
    VirtualHost,
)

TLS_KEYS = (
    "ssl_protocol",
    "ssl_cipher",
    "peer_cert_subject",
    "peer_cert_issuer",
    "peer_cert_validity",
)
LISTENERS = {"amqp": ("127.0.0.1", 5672), "http": ("127.0.0.1", 15672)}
TAKEN = TakenMessage("", "q", True, {"delivery_mode": 2}, memoryview(b"body"), 0)
MINE = Permission("^mine", "^mine", "^mine")


class Connection:
    """An open connection with one channel, and a consumer if that is wanted."""

    def __init__(self, name: str, user: str, vhost: VirtualHost, queue: str = "") -> None:
        self.name = name
        self.user = user
        self.vhost = vhost
        self.counters = vhost.counters.channel()
        self.traffic = vhost.counters.node.connection()
        has_consumer = int(bool(queue))
        self.channels = [
            ChannelSnapshot(1, True, False, has_consumer, 2, 10, 0, True, self.counters, 4, 5, 6)
        ]
        self.of_queue = (
            [ConsumerSnapshot(1, queue, "tag", "", True, False, 10, 3, "up", 2, 0)] if queue else []
        )
        self.consumers = len(self.of_queue)
        self.closed_because = ""
        self.blocked_by: tuple[str, ...] = ("memory",)


class Connections:
    """See `broker_side.Connections`."""

    def __init__(self) -> None:
        self.open: list[Connection] = []

    @property
    def count(self) -> int:
        return len(self.open)

    def connections(self) -> list[Connection]:
        return list(self.open)

    def name(self, connection: Connection) -> str:
        return connection.name

    def describe(self, connection: Connection) -> ConnectionSnapshot:
        peer, own = ("10.0.0.9", 40_000), ("10.0.0.1", 5672)
        told: dict[str, object] = {"connection_name": f"the {connection.name}"}
        of = (connection.name, connection.user, connection.vhost.name)
        return ConnectionSnapshot(
            *of,
            *peer,
            *own,
            "blocked",
            connection.blocked_by,
            1,
            2_047,
            131_072,
            60,
            "PLAIN",
            1_000,
            told,
            is_tls=False,
            traffic=connection.traffic,
            unsent_bytes=7,
            tls=dict.fromkeys(TLS_KEYS),
        )

    def channels(self, connection: Connection) -> Iterable[ChannelSnapshot]:
        return connection.channels

    def consumers(self, connection: Connection) -> Iterable[ConsumerSnapshot]:
        return connection.of_queue

    def close(self, connection: Connection, reason: str) -> None:
        connection.closed_because = reason
        self.open.remove(connection)


class Batch:
    """A batch under construction, see `broker_side.Batch`; it refuses messages whose key is `wrong`."""

    def __init__(self) -> None:
        self.received = 0
        self.added: list[tuple[str, Mapping[str, object], bytes]] = []
        self.is_published = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def receive(self, size: int) -> None:
        self.received += size

    def add(self, routing_key: str, properties: Mapping[str, object], body: bytes) -> None:
        if routing_key == "wrong":
            raise AccessRefused("refused")
        self.added.append((routing_key, properties, body))

    async def publish(self) -> BatchOutcome:
        self.is_published = True
        return BatchOutcome(len(self.added) - 2, [0], [1])


class Messages:
    """Single messages: those published are noted, and one is there to be taken."""

    refusals: tuple[type[Exception], ...] = ()

    def __init__(self) -> None:
        self.published: list[tuple[object, ...]] = []
        self.taken: list[tuple[str, int, Reason | ReturnReason]] = []
        self.left: list[TakenMessage] = [TAKEN]
        self.orders: list[MoveOrder] = []
        self.batches: list[Batch] = []

    async def publish(self, vhost: VirtualHost, *message: object) -> bool:
        self.published.append((vhost.name, *message))
        return True

    def batch(self, vhost: VirtualHost, user: str | None, exchange: str) -> Batch:
        self.batches.append(Batch())
        return self.batches[-1]

    async def take(
        self, queue: Queue, count: int, outcome: Reason | ReturnReason
    ) -> Iterable[TakenMessage]:
        self.taken.append((queue.name, count, outcome))
        return self.left

    async def browse(
        self, queue: Queue, search: MessageSearch, count: int
    ) -> Sequence[BrowsedMessage]:
        found: list[BrowsedMessage] = []
        async for each in search.found():
            body = memoryview(each.records.body(each.index))
            place = each.partition, each.offset, str(each.state), each.records.time
            found.append(BrowsedMessage(*place, "", "k", 0, None, {}, body))
            if len(found) == count:
                break
        return found

    async def move(
        self, vhost: VirtualHost, queue: Queue, search: MessageSearch, order: MoveOrder
    ) -> MoveReport:
        self.orders.append(order)
        report = MoveReport()
        async for each in search.found():
            if each.state in order.states:
                moved = order.destination(each)
                assert isinstance(moved, MovedMessage)
                report.sample.append(moved)
                report.count += 1
            else:
                report.skip(str(each.state))
        report.places, report.looked_at = list(search.places), search.looked_at
        return report


class Passwords:
    """A password is its own hash."""

    async def hash(self, password: bytes) -> str:
        return f"hash of {password.decode()}"

    async def verify(self, user: User | None, password: bytes, **_: object) -> bool:
        return user is not None and user.password_hash == f"hash of {password.decode()}"


class Cluster:
    """See `ClusterState`."""

    min_in_sync = 2

    def __init__(self) -> None:
        self.nodes = [ReplicaState("routelog@here")]
        self.led: dict[str, Any] | None = None
        self.followers: list[dict[str, Any]] = []

    def replicas(self) -> list[ReplicaState]:
        return self.nodes

    def leadership(self) -> dict[str, Any] | None:
        return self.led

    def standbys(self) -> list[dict[str, Any]]:
        return self.followers


class ManagedNode:
    """Requests of a node.

    Attributes:
        alarms: why publishers wait.
        failure: why the log takes no more writes.
        traced: vhosts whose firehose was switched, and how.
        expiries: of certificates.
        cluster: its nodes, and who follows it.
        disk_free: as the sampler sees it.
        log_lines: see `BrokerSide`.
        confirms, deliveries, rates: see `WatchedBroker`.
        others, silent: other nodes by name, and what answers for them; names of those that do not answer.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.connections, self.messages = Connections(), Messages()
        self.alarms: list[str] = []
        self.disk_free = 1_000
        self.failure = self.remote_failure = ""
        self.processes: list[ProcessState] = []
        self.traced: list[tuple[str, bool]] = []
        self.expiries: dict[str, dict[Path, datetime]] = {}
        self.log_lines: list[dict[str, Any]] = []
        self.cluster = Cluster()
        self.others: dict[str, AnswerPieces] = {}
        self.silent: list[str] = []
        self.confirms = Histogram((1.0,))
        self.deliveries = DeliverySamples(node.logs.clock)
        self.rates: Any = SimpleNamespace(limited=set())
        passwords = Passwords()
        self.users = UserDirectory(node.writer, passwords.hash)
        node.vhosts.write_deletion = self.users.clear_vhost
        self.users.check_vhost = node.vhosts.get
        logs = node.logs
        self.broker = BrokerSide(
            vhosts=node.vhosts,
            users=self.users,
            passwords=cast(Any, passwords),
            parameters=(parameters := GlobalParameters(node.writer)),
            connections=self.connections,
            ask_nodes=lambda question: self.ask_nodes(question),
            messages=self.messages,
            node=NodeFacts("routelog@here", "0.1", 17, "/data", 0.0, 1_024, 100, LISTENERS),
            cluster_name=lambda: parameters.cluster_name("routelog@here"),
            cluster=self.cluster,
            clock=logs.clock,
            loopback_rule=LoopbackRule(("guest",)),
            host_names=HostNames(["broker.example"]),
            expiries=lambda: self.expiries,
            alarms=lambda: self.alarms,
            in_time=lambda answer: answer,
            log_failure=lambda: self.failure,
            processes=lambda: self.processes,
            remote_failure=lambda: self.remote_failure,
            space=cast(
                Any, SimpleNamespace(free=1_000, total=4_000, reserve=SimpleNamespace(size=100))
            ),
            intake_bytes=lambda: (3, 30),
            trace=lambda vhost, on: self.traced.append((vhost.name, on)),
            logs=StoredLogs(SystemDisk(), asyncio.get_running_loop()),
            backups=Backups(
                logs.copies,
                SystemDisk(),
                logs.clock,
                asyncio.get_running_loop(),
                node="routelog@here",
                version="0.1",
                remote_storage="",
                bytes_per_second=0,
            ),
            log_lines=lambda: self.log_lines,
            reader_hold_bytes_max=10_000,
            log_token_key=b"key",
            findings=FindingLimits(messages=3, age_seconds=600.0),
            watched=WatchedBroker(
                node.vhosts,
                self.connections,
                self.confirms,
                self.deliveries.waits,
                self.deliveries.sizes,
                self.rates,
            ),
        )
        self.tokens = LogTokens(b"key", logs.clock)
        self.sampler = Sampler(node.vhosts, logs.clock, lambda: self.disk_free)
        self.admin = self.caller("", is_local=True)

    @property
    def vhost(self) -> VirtualHost:
        return self.node.vhost

    async def ask_nodes(self, question: bytes) -> Mapping[str, NodeAnswer | None]:
        """See `BrokerSide`."""
        answers: dict[str, NodeAnswer | None] = dict.fromkeys(self.silent)
        for name, pieces in self.others.items():
            try:
                answers[name] = NodeAnswer([each async for each in pieces(question)])
            except AnswerFailed as error:
                answers[name] = NodeAnswer([error.content], has_failed=True)
        return answers

    def caller(self, name: str, *tags: str, is_local: bool = False) -> Caller:
        """Somebody who asks; his user need not be there."""
        return Caller(name, tags, self.users.permissions, is_local)

    async def user(self, name: str, *tags: str) -> Caller:
        """A user who has permissions for what begins with "mine" in vhost `/`."""
        await self.users.put_user(User(name, "hash of secret", tags))
        await self.users.set_permissions(name, "/", MINE)
        return self.caller(name, *tags)

    async def queue(self, name: str, **arguments: object) -> Queue:
        """A durable queue of vhost `/`."""
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        properties = QueueProperties(name, durable=True, arguments=given)
        queue, done = declare_queue(self.vhost, properties, object())
        if done is not None:
            await done
        return queue

    def call(
        self,
        of: Caller | None = None,
        *,
        path: str = "/api/",
        query: str = "",
        body: object = None,
        headers: Mapping[str, str] | None = None,
        known: Query | None = None,
        **parts: str,
    ) -> Call:
        """A request in vhost `/`.

        Args:
            body: encoded as JSON, unless it is bytes.
            known: parameters of the query that there are; None: any.
            parts: of the path, as the route names them.
        """
        payload = StreamReader(mock.Mock(_reading_paused=False), 2**20)
        if body is not None:
            payload.feed_data(body if isinstance(body, bytes) else json.dumps(body).encode())
        payload.feed_eof()
        target = path + (f"?{query}" if query else "")
        request = make_mocked_request(
            "GET", target, headers or {}, match_info=parts, payload=payload
        )
        call = Call(request, self.broker, of or self.admin, self.tokens, self.sampler, known)
        call.vhost = self.vhost
        return call

    async def ask(
        self, handler: Callable[[Call], Any], of: Caller | None = None, **how: Any
    ) -> Any:
        """What a handler answers: a JSON value, rows of a list, or a status alone."""
        operation = operation_of(handler)
        known = None if operation is UNSAID else operation.query
        found = handler(self.call(of, known=known, **how))
        answer: Answer = await found if asyncio.iscoroutine(found) else found
        return await told(answer)


async def told(answer: Answer) -> Any:
    """An answer as a client reads it; of an error's status, with its value."""
    if isinstance(answer, Empty):
        return answer.status
    if isinstance(answer, Value):
        value = json.loads(msgspec.json.encode(answer.value))
        return value if answer.status == 200 else (answer.status, value)
    if isinstance(answer, Pieces):
        return json.loads(b"".join([piece async for piece in answer.pieces]))
    assert isinstance(answer, Listing)
    rows = [as_json(answer.describe(item)) for item in await items_of(answer)]
    return [row for row in rows if row is not None]


@asynccontextmanager
async def managed_node(data: Path, *, clocked: bool = False) -> AsyncIterator[ManagedNode]:
    """A node on a directory; see `running_node`."""
    async with running_node(data, clocked=clocked) as node:
        managed = ManagedNode(node)
        yield managed
        await managed.broker.backups.aclose()
        managed.broker.logs.close()
