"""A front without a journal has the leader's definitions, whatever happens to its sessions."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from property.test_followed_definitions import Declarer
from support.queue_samples import Node, running_node
from support.waiting import until
from unit.broker.sessions.fed_front import FedFront, stored
from unit.vhosts.replicated_nodes import ReplicatedNode, replicated_node

from routelog.broker.sessions.definition_feed import PAGE_RECORDS, DefinitionFeed
from routelog.log_backend import Change, MetadataUnavailable
from routelog.log_backend.metadata import metadata
from routelog.vhosts import (
    FULL_PERMISSION,
    SESSION_OUTBOX_BYTES_MAX,
    BadSessionMessage,
    Permission,
    QueueProperties,
    SessionKind,
    SessionMessage,
    TopicPermission,
    User,
    value_of,
)

SEEDS = 12
ROUNDS = 8


def feed_of(node: Node) -> DefinitionFeed:
    """The feed of a node that leads."""
    feed = DefinitionFeed(node.logs.metadata, node.definitions.prefixes)
    node.writer.on_applied = feed.changed
    return feed


async def declared(node: Node, name: str) -> None:
    """A durable queue is declared."""
    await value_of(node.vhost.declare_queue(QueueProperties(name, durable=True), None))


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_front_knows_what_a_start_would_find(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    async with replicated_node(tmp_path) as leader:
        await leader.lead(1)
        feed, declarer = feed_of(leader), Declarer(leader, choice)
        front = FedFront()
        front.begin(feed)
        for _ in range(ROUNDS):
            await some(declarer, front, choice)
            if choice.random() < 0.4:
                front.cut()
                await some(declarer, front, choice)  # what it does not hear of
                front.begin(feed)
            if choice.random() < 0.6:
                await is_known(leader, declarer, front, feed)
        await is_known(leader, declarer, front, feed)
        front.cut()


async def some(declarer: Declarer, front: FedFront, choice: random.Random) -> None:
    """Definitions change, while some of what is told of them comes."""
    await declarer.some()
    for _ in range(choice.randrange(4)):
        await asyncio.sleep(0.001)
        front.carry()


async def is_known(
    leader: ReplicatedNode, declarer: Declarer, front: FedFront, feed: DefinitionFeed
) -> None:
    """When all is answered, the front has what the leader's store has."""
    await declarer.answered()
    await leader.drained()
    await front.follow(feed.position)
    assert front.known() == await stored(leader)


async def test_a_change_comes_behind_a_snapshot_that_is_under_way(tmp_path: Path) -> None:
    async with running_node(tmp_path) as leader:
        for number in range(2 * PAGE_RECORDS):
            await declared(leader, f"q{number:03}")
        feed, front = feed_of(leader), FedFront()
        front.begin(feed)
        await until(lambda: front.carry() > 0)
        queues = leader.vhost.queues
        for name in ("q000", "q255"):  # told of, and not yet
            await value_of(leader.vhost.delete_queue(queues[name]))
        await declared(leader, "q000")
        await front.follow(feed.position)
        assert front.known() == await stored(leader)
        found = front.vhosts.get("/").stored.queues
        assert found["q000"].partitions == [queues["q000"].number]
        assert "q255" not in found
        front.cut()


@pytest.mark.parametrize("is_another", [True, False], ids=["another one", "other tags"])
async def test_another_user_of_the_name_ends_the_connections_of_the_first_one(
    tmp_path: Path, is_another: bool
) -> None:
    async with running_node(tmp_path) as leader:
        users, topic = leader.users, TopicPermission("amq.topic", "a", "b")
        await users.put_user(User("eve", "first"))
        for vhost in ("/", "v"):
            if vhost == "v":
                await leader.vhosts.add(vhost)
            await users.set_permissions("eve", vhost, FULL_PERMISSION)
            await users.set_topic_permission("eve", vhost, topic)
        await users.set_limits("eve", {"max-channels": 1})
        feed, front = feed_of(leader), FedFront()
        closed: list[str] = []
        front.users.on_deleted = closed.append
        front.begin(feed)
        await front.follow(feed.position)
        front.cut()  # it stands still for longer than others wait
        if is_another:
            await users.delete_user("eve")
            await users.put_user(User("eve", "another", ("monitoring",)))
            await users.set_permissions("eve", "/", FULL_PERMISSION)
            await users.set_topic_permission("eve", "/", topic)
            await users.set_permissions("eve", "v", Permission("", "", "mine"))
        else:
            await users.set_tags("eve", ("monitoring",))
        front.begin(feed)
        await front.follow(feed.position)
        assert closed == ["eve"] * is_another
        assert front.known() == await stored(leader)
        front.cut()


async def test_positions_are_of_the_session(tmp_path: Path) -> None:
    async with running_node(tmp_path) as leader:
        feed, front = feed_of(leader), FedFront()
        reached: list[str] = []
        front.begin(feed)
        await declared(leader, "q")
        await front.follow(feed.position)
        front.fed.when_applied(feed.position + 1, lambda: reached.append("of a lost session"))
        front.cut()
        front.fed.when_applied(0, lambda: reached.append("of this one"))
        assert not reached
        front.begin(feed_of(leader))
        await front.follow(0)
        assert reached == ["of this one"]
        await declared(leader, "another")
        front.carry()
        assert reached == ["of this one"]
        front.cut()


async def test_who_does_not_read_is_sent_no_more_of_a_snapshot(tmp_path: Path) -> None:
    async with running_node(tmp_path) as leader:
        for number in range(2 * PAGE_RECORDS):
            await declared(leader, f"q{number:03}")
        feed, front = feed_of(leader), FedFront()
        front.outbox_bytes = SESSION_OUTBOX_BYTES_MAX + 1
        front.begin(feed)
        await asyncio.sleep(0.05)
        assert len(front.messages()) == 1
        front.cut()
        front.outbox_bytes = 0
        front.begin(feed)
        await front.follow(0)
        front.cut()


async def test_the_leader_hears_when_a_session_has_been_told_of_all(tmp_path: Path) -> None:
    async with running_node(tmp_path) as leader:
        for number in range(2 * PAGE_RECORDS):
            await declared(leader, f"q{number:03}")
        feed, front = feed_of(leader), FedFront()
        kinds: list[SessionKind] = []
        front.begin(feed, lambda: kinds.extend(each.kind for each in front.messages()))
        await until(lambda: kinds)
        assert kinds[-1] is SessionKind.SNAPSHOT
        assert kinds.count(SessionKind.RECORDS) > 2
        front.cut()


async def test_a_session_that_cannot_be_told_ends(tmp_path: Path) -> None:
    async with running_node(tmp_path) as leader:
        feed, front = feed_of(leader), FedFront()
        unreadable: Any = ("no bytes",)
        feed._prefixes = unreadable
        front.begin(feed)
        await until(lambda: front.told_failures)
        front.cut()


async def test_a_page_of_a_snapshot_reads_no_more_than_it_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []

    def counted(key: bytes, stored: bytes) -> metadata.Entry:
        read.append(key)
        return decode(key, stored)

    decode = metadata._decode
    async with running_node(tmp_path) as leader:
        for number in range(3 * PAGE_RECORDS):
            await declared(leader, f"q{number:03}")
        feed, front = feed_of(leader), FedFront()
        with monkeypatch.context() as patched:
            patched.setattr(metadata, "_decode", counted)
            front.begin(feed)
            await front.follow(0)
        assert len(read) == len({*read})
        front.cut()


async def test_what_cannot_be_carried_out_stops_the_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_node(tmp_path) as leader:
        feed, front = feed_of(leader), FedFront()
        front.begin(feed)
        await front.follow(0)
        reached: list[int] = []
        feed.changed([Change(b"queues/%2F/q", b"no record")])
        front.fed.when_applied(feed.position, lambda: reached.append(feed.position))
        await declared(leader, "q")
        front.carry()
        assert len(front.failures) == 1
        assert not reached
        assert "q" not in front.vhosts.get("/").stored.queues
        front.cut()


def told(kind: SessionKind, *content: bytes | None) -> SessionMessage:
    """A message of a feed."""
    return SessionMessage(kind, content=msgspec.msgpack.encode(content))


@pytest.mark.parametrize(
    "messages",
    [
        [told(SessionKind.CHANGES, b"key")],
        [told(SessionKind.RECORDS, None, b"value")],
        [SessionMessage(SessionKind.CHANGES, content=b"\xc1")],
        [SessionMessage(SessionKind.SNAPSHOT), SessionMessage(SessionKind.SNAPSHOT)],
        [SessionMessage(SessionKind.SNAPSHOT), told(SessionKind.RECORDS, b"key", b"value")],
    ],
)
async def test_a_leader_at_fault_is_refused(messages: list[SessionMessage]) -> None:
    *before, bad = messages
    fed = FedFront().fed
    for message in before:
        fed.received(message)
    with pytest.raises(BadSessionMessage):
        fed.received(bad)


async def test_a_front_changes_no_definitions_itself() -> None:
    front = FedFront()
    with pytest.raises(MetadataUnavailable):
        await front.users.put_user(User("u", "hash", ()))
