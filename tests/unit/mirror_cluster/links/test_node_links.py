"""Nodes on real sockets: one connection for each two of them, whoever comes and goes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from support.node_certificates import node_files
from support.node_sockets import node_sockets
from support.waiting import until

from routelog.broker.sockets.accepted_sockets import AcceptedSockets
from routelog.log_backend import START, ShardBlock
from routelog.mirror_cluster.coordination.coordinator import NodeEntry
from routelog.mirror_cluster.links.node_links import LinkSecurity, NodeLinks, StrangerLog
from routelog.mirror_cluster.node_tls import NodeTls
from routelog.mirror_cluster.protocol.messages import Acknowledge, Append, Message

SECRET = LinkSecurity(b"s" * 32)


class Node:
    """One node, and what it was told."""

    def __init__(
        self,
        name: str,
        security: LinkSecurity,
        cluster: str,
        process: int,
        sockets: AcceptedSockets | None = None,
    ) -> None:
        self.entry = NodeEntry(name, process, "", process)
        self.messages: list[tuple[str, Message]] = []
        self.gone: list[str] = []
        counted = node_sockets() if sockets is None else sockets
        self.links = NodeLinks(
            cluster,
            self.entry,
            security,
            self.received,
            self.gone.append,
            counted,
        )

    def received(self, sender: str, message: Message) -> None:
        self.messages.append((sender, message))

    async def listen(self, port: int = 0) -> None:
        port = await self.links.listen("127.0.0.1", port)
        self.entry = replace(self.entry, address=f"127.0.0.1:{port}")

    @property
    def port(self) -> int:
        return int(self.entry.address.rpartition(":")[2])


@asynccontextmanager
async def cluster(
    names: Sequence[str], securities: Sequence[LinkSecurity] = (), clusters: Sequence[str] = ()
) -> AsyncIterator[dict[str, Node]]:
    nodes = {}
    for at, name in enumerate(names):
        security = securities[at] if securities else SECRET
        nodes[name] = Node(name, security, clusters[at] if clusters else "orders", at)
    for node in nodes.values():
        await node.listen()
    tell(nodes)
    try:
        yield nodes
    finally:
        for node in nodes.values():
            await node.links.aclose()


def tell(nodes: dict[str, Node]) -> None:
    for node in nodes.values():
        node.links.set_nodes({name: each.entry for name, each in nodes.items()})


def acknowledge(durable: int) -> Acknowledge:
    return Acknowledge(0, 1, 1, durable, 0.5)


def all_connected(nodes: dict[str, Node]) -> bool:
    return all(each.links.connected == set(nodes) - {name} for name, each in nodes.items())


async def test_every_node_reaches_every_other_in_order() -> None:
    async with cluster("abc") as nodes:
        await until(lambda: all_connected(nodes))
        for name, node in nodes.items():
            for to in nodes:
                for number in range(100):
                    node.links.send(to, acknowledge(number))
            node.links.send(name, acknowledge(0))
        await until(lambda: all(len(each.messages) == 200 for each in nodes.values()))
        for name, node in nodes.items():
            for sender in set(nodes) - {name}:
                numbers = [m.durable for s, m in node.messages if s == sender]
                assert numbers == list(range(100))
        accepted = [len(each.links._all) for each in nodes.values()]
        assert accepted == [2, 2, 2]


async def test_a_large_block_arrives_whole() -> None:
    block = ShardBlock.following(START, 0, 1, bytes(range(256)) * 65_536)
    message = Append(0, 1, 1, 0, 0, 0.0, (block,))
    async with cluster("ab") as nodes:
        await until(lambda: all_connected(nodes))
        nodes["a"].links.send("b", message)
        nodes["b"].links.send("a", acknowledge(1))
        await until(lambda: nodes["b"].messages and nodes["a"].messages)
        assert nodes["b"].messages == [("a", message)]


async def test_a_node_that_reads_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("routelog.mirror_cluster.links.node_link.UNSENT_BYTES_MAX", 65_536)
    block = ShardBlock.following(START, 0, 1, bytes(16 * 1024 * 1024))
    message = Append(0, 1, 1, 0, 0, 0.0, (block,))
    async with cluster("ab") as nodes:
        await until(lambda: all_connected(nodes))
        nodes["a"].links.send("b", message)
        await until(lambda: nodes["b"].messages)  # one is sent, however long it is
        link = nodes["b"].links._links["a"]
        assert link._transport is not None
        link._transport.pause_reading()
        for _ in range(3):
            nodes["a"].links.send("b", message)
        await until(lambda: any("reads nothing" in each for each in caplog.messages))
        await until(lambda: nodes["a"].links.connected == {"b"})


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_node_that_ended_is_told_and_its_next_process_connected(name: str) -> None:
    async with cluster("ab") as nodes:
        await until(lambda: all_connected(nodes))
        (other,) = set(nodes) - {name}
        await nodes[name].links.aclose()
        await until(lambda: nodes[other].gone)
        assert set(nodes[other].gone) == {name}
        assert not nodes[other].links.connected
        nodes[other].links.send(name, acknowledge(1))  # dropped
        port = nodes[name].port
        nodes[name] = Node(name, SECRET, "orders", 7)
        await nodes[name].listen(port)
        tell(nodes)
        await until(lambda: all_connected(nodes))
        nodes[other].links.send(name, acknowledge(2))
        await until(lambda: nodes[name].messages)
        assert nodes[name].messages == [(other, acknowledge(2))]


async def test_a_node_that_is_connected_has_not_ended_though_it_is_refused() -> None:
    async with cluster("ab") as nodes:
        await until(lambda: all_connected(nodes))
        await nodes["b"].links._door.aclose()
        with pytest.raises(ConnectionRefusedError):
            await nodes["a"].links._reach("b", asyncio.Protocol(), None)
        assert not nodes["a"].gone


async def test_a_node_that_left_is_connected_no_more() -> None:
    async with cluster("abc") as nodes:
        await until(lambda: all_connected(nodes))
        left = {name: nodes[name].entry for name in "ab"}
        for name in "ab":
            nodes[name].links.set_nodes(left)
        await until(lambda: not nodes["c"].links.connected)
        assert nodes["a"].links.connected == {"b"}


@pytest.mark.parametrize(
    ("securities", "clusters", "told"),
    [
        ((SECRET, LinkSecurity(b"x" * 32)), ("orders", "orders"), "secret"),
        ((SECRET, SECRET), ("orders", "other"), "of cluster"),
    ],
    ids=["another secret", "another cluster"],
)
async def test_strangers_are_not_connected(
    securities: Sequence[LinkSecurity],
    clusters: Sequence[str],
    told: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with cluster("ab", securities, clusters) as nodes:
        await until(lambda: sum(told in each for each in caplog.messages) >= 3)
        assert not any(each.links.connected for each in nodes.values())
        assert not any(each.gone for each in nodes.values())


@pytest.mark.parametrize(
    "octets", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x00\x09\x01", b"\x10\0\0\0" * 9]
)
async def test_another_protocol_is_closed_and_hurts_nobody(octets: bytes) -> None:
    async with cluster("ab") as nodes:
        await until(lambda: all_connected(nodes))
        reader, writer = await asyncio.open_connection("127.0.0.1", nodes["b"].port)
        writer.write(octets)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await reader.readexactly(1)
        writer.close()
        assert all_connected(nodes)


async def test_who_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routelog.mirror_cluster.links.node_link.INTRODUCTION_SECONDS_MAX", 0.05)
    async with cluster("b") as nodes:
        reader, writer = await asyncio.open_connection("127.0.0.1", nodes["b"].port)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await reader.readexactly(1)
        writer.close()


async def test_strangers_make_room_for_others_and_nobody_who_is_introduced_is_dropped() -> None:
    sockets = node_sockets(8, 4)
    b = Node("b", SECRET, "orders", 1, sockets)
    await b.listen()
    async with cluster("ac") as nodes:
        nodes["b"] = b
        try:
            tell(nodes)
            await until(lambda: all_connected(nodes))
            # From c two sockets are open: that of the link that b has dialed is not counted.
            assert len(sockets) == 1
            strangers = [await asyncio.open_connection("127.0.0.1", b.port) for _ in range(20)]
            for reader, _ in strangers[:-4]:
                with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                    await reader.readexactly(1)
            assert len(sockets) == 5
            assert all_connected(nodes)
            before = nodes["a"].links._links["b"]
            before.close()
            await until(lambda: nodes["a"].links._links.get("b") not in (None, before))
            await until(lambda: all_connected(nodes))
            for _, writer in strangers:
                writer.close()
            await until(lambda: len(sockets) == 1)
        finally:
            await b.links.aclose()
    assert len(sockets) == 0


async def test_a_connection_that_is_given_away_is_no_socket_of_the_door() -> None:
    sockets = node_sockets()
    b = Node("b", SECRET, "orders", 1, sockets)
    await b.listen()
    async with cluster("a") as nodes:
        nodes["b"] = b
        tell(nodes)
        await until(lambda: all_connected(nodes))
        near, far = Taken(), Taken()
        b.links.take_client = far.take
        await nodes["a"].links.connect_client("b", 1, near.take)
        assert len(sockets) == 1
        near.transport.close()
        await far.ends()
        await b.links.aclose()


async def test_of_many_strangers_some_have_a_line_each_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with cluster("b") as nodes:
        for said in (b"GET / HTTP/1.1\r\n\r\n", b"x" * 4 + b"\n" * 4_000, b"") * 40:
            reader, writer = await asyncio.open_connection("127.0.0.1", nodes["b"].port)
            writer.write(said)
            writer.write_eof()
            with suppress(ConnectionResetError):
                await reader.read()
            writer.close()
        await until(lambda: not nodes["b"].links._all)
    lines = [each for each in caplog.messages if "127.0.0.1" in each]
    assert len(lines) == 60
    assert caplog.messages[-1] == "60 more lines like these, of who was not introduced"


async def test_a_damaged_message_ends_the_connection_and_a_new_one_begins(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with cluster("ab") as nodes:
        await until(lambda: all_connected(nodes))
        before = nodes["a"].links._links["b"]
        before._write(b"\x40\0\0\0" + b"x" * 64)
        await until(lambda: nodes["a"].links._links.get("b") not in (None, before))
        await until(lambda: all_connected(nodes))
        assert any("wrong checksum" in each for each in caplog.messages)
        nodes["a"].links.send("b", acknowledge(3))
        await until(lambda: nodes["b"].messages)


def tls(authority: trustme.CA, folder: Path) -> LinkSecurity:
    return LinkSecurity(SECRET.secret, NodeTls(node_files(authority, folder), "127.0.0.1"))


async def test_with_tls_both_ends_show_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    securities = tls(authority, tmp_path / "a"), tls(authority, tmp_path / "b")
    block = ShardBlock.following(START, 0, 1, bytes(range(256)) * 65_536)
    message = Append(0, 1, 1, 0, 0, 0.0, (block,))
    async with cluster("ab", securities) as nodes:
        await until(lambda: all_connected(nodes))
        nodes["a"].links.send("b", message)
        nodes["b"].links.send("a", acknowledge(1))
        await until(lambda: nodes["b"].messages and nodes["a"].messages)
        assert nodes["b"].messages == [("a", message)]
        before = nodes["a"].links._links["b"]
        node_files(authority, tmp_path / "b")
        assert securities[1].tls is not None
        securities[1].tls.reload()
        before.close()
        await until(lambda: nodes["a"].links._links.get("b") not in (None, before))
        await until(lambda: all_connected(nodes))


OTHERS_REFUSED = "its certificate is not accepted: self-signed certificate"
OURS_REFUSED = "if it does not accept this node's certificate, its log says why"
ALL_OR_NONE = "all nodes have a cluster_tls_certificate, or none"


@pytest.mark.parametrize(
    ("dials", "listens", "dialer_told", "listener_told"),
    [
        ("ours", "theirs", OTHERS_REFUSED, OURS_REFUSED),
        ("ours", "none", f"it ended the handshake of TLS: {ALL_OR_NONE}", "it speaks TLS, and"),
        ("none", "ours", "before it was introduced", f"it does not speak TLS: {ALL_OR_NONE}"),
        ("accepts both", "ours", OURS_REFUSED, OTHERS_REFUSED),
    ],
)
async def test_without_a_certificate_of_the_same_authority_nobody_connects_and_both_are_told(
    tmp_path: Path,
    dials: str,
    listens: str,
    dialer_told: str,
    listener_told: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    authority, other = trustme.CA(), trustme.CA()
    both = node_files(other, tmp_path / "both")
    with both.authorities.open("ab") as file:
        file.write(authority.cert_pem.bytes())
    securities = {
        "none": SECRET,
        "ours": tls(authority, tmp_path / "ours"),
        "theirs": tls(other, tmp_path / "theirs"),
        "accepts both": LinkSecurity(SECRET.secret, NodeTls(both, "127.0.0.1")),
    }
    async with cluster("ab", (securities[dials], securities[listens])) as nodes:

        def times(told: str) -> int:
            return sum(told in each for each in caplog.messages)

        await until(lambda: times(dialer_told) >= 2 and times(listener_told) >= 2)
        assert not any(each.links.connected for each in nodes.values())
        assert not any("\n" in each for each in caplog.messages)
        assert len(nodes["b"].links._all) <= 2


async def test_who_begins_no_handshake_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.mirror_cluster.links.node_door.INTRODUCTION_SECONDS_MAX", 0.05)
    async with cluster("b", (tls(trustme.CA(), tmp_path),)) as nodes:
        reader, writer = await asyncio.open_connection("127.0.0.1", nodes["b"].port)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await reader.readexactly(1)
        writer.close()
        await until(lambda: not nodes["b"].links._all)


# -- connections for clients


class Taken(asyncio.Protocol):
    """The end of a client's connection, once it is taken: all that came."""

    def __init__(self) -> None:
        self.octets = b""
        self.ended = False

    def take(self, transport: asyncio.Transport, unread: bytes) -> None:
        self.transport, self.octets = transport, unread
        transport.set_protocol(self)
        transport.resume_reading()

    async def has(self, octets: bytes) -> None:
        await until(lambda: self.octets == octets)

    async def ends(self) -> None:
        await until(lambda: self.ended)

    def data_received(self, data: bytes) -> None:
        self.octets += data

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = True


async def test_a_connection_for_a_client_carries_its_bytes_both_ways(tmp_path: Path) -> None:
    async with cluster("ab", [tls(trustme.CA(), tmp_path)] * 2) as nodes:
        await until(lambda: all_connected(nodes))
        for dialer, listener in ("ab", "ba"):
            near, far = Taken(), Taken()
            nodes[listener].links.take_client = far.take
            process = nodes[listener].entry.process
            await nodes[dialer].links.connect_client(listener, process, near.take)
            near.transport.write(b"from the client")
            await far.has(b"from the client")
            far.transport.write(b"to the client")
            await near.has(b"to the client")
            near.transport.close()
            await far.ends()
        assert all_connected(nodes)  # replication goes on


async def test_a_session_is_taken_with_the_name_of_its_front() -> None:
    async with cluster("ab") as nodes:
        await until(lambda: all_connected(nodes))
        near, far, fronts = Taken(), Taken(), list[str]()

        def take(front: str, transport: asyncio.Transport, unread: bytes) -> None:
            fronts.append(front)
            far.take(transport, unread)

        nodes["b"].links.take_front = take
        await nodes["a"].links.connect_front("b", nodes["b"].entry.process, near.take)
        near.transport.write(b"a batch")
        await far.has(b"a batch")
        assert fronts == ["a"]


async def test_a_node_that_takes_no_clients_closes_their_connections() -> None:
    async with cluster("ab") as nodes:
        await until(lambda: all_connected(nodes))
        near = Taken()
        await nodes["a"].links.connect_client("b", nodes["b"].entry.process, near.take)
        await near.ends()


async def test_a_client_is_not_taken_to_another_process_nor_without_the_secret() -> None:
    other = LinkSecurity(b"o" * 32)
    async with cluster("abc", [SECRET, SECRET, other]) as nodes:
        far = Taken()
        for each in nodes.values():
            each.links.take_client = far.take
        links = nodes["a"].links
        with pytest.raises(ConnectionError, match="another process"):
            await links.connect_client("b", 99, Taken().take)
        with pytest.raises(ConnectionError, match="before it was introduced"):
            await links.connect_client("c", nodes["c"].entry.process, Taken().take)
        await nodes["b"].links.aclose()
        with pytest.raises(ConnectionRefusedError):
            await links.connect_client("b", nodes["b"].entry.process, Taken().take)
        assert not far.octets


async def test_a_line_is_no_longer_than_its_limit(caplog: pytest.LogCaptureFixture) -> None:
    strangers = StrangerLog()
    strangers.tell(logging.WARNING, "x" * 4_096)
    strangers.tell(logging.WARNING, "100 %s")
    assert caplog.messages == ["x" * 512 + "… (3584 characters more)", "100 %s"]
    strangers.end_window()
    assert len(caplog.messages) == 2


async def test_behind_a_window_the_number_of_lines_left_out_is_told_and_others_are(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.mirror_cluster.links.node_links.WINDOW_SECONDS", 0.01)
    monkeypatch.setattr("routelog.mirror_cluster.links.node_links.LINES_MAX", 2)
    strangers = StrangerLog()
    for number in range(5):
        strangers.tell(logging.WARNING, f"stranger {number}")
    strangers.tell(logging.DEBUG, "not wanted")
    await until(lambda: len(caplog.messages) == 3)
    strangers.tell(logging.WARNING, "the next")
    assert caplog.messages == [
        "stranger 0",
        "stranger 1",
        "3 more lines like these, of who was not introduced",
        "the next",
    ]
    strangers.end_window()
