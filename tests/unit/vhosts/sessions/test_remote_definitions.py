"""A node that does not lead asks the leader for definitions, and turns to its own when it leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Set
from pathlib import Path
from typing import Any

import pytest
from support.queue_samples import Node, running_node
from support.waiting import WAIT_SECONDS
from unit.vhosts.sessions.session_pipe import PipedFront, ScriptedLeader, call_of, settled_down

from routelog.exchanges import Binding, QueueNotFound
from routelog.log_backend import Change
from routelog.vhosts import Policy, QueueInUse, QueueLocked, QueueProperties
from routelog.vhosts.errors import SessionLost
from routelog.vhosts.queues.queue_handle import pending, value_of
from routelog.vhosts.sessions.front_vhosts import FrontVhosts
from routelog.vhosts.sessions.leader_link import LeaderLink
from routelog.vhosts.sessions.remote_definitions import TRIES_MAX, FrontConnections
from routelog.vhosts.sessions.remote_queue import RemoteQueue
from routelog.vhosts.sessions.session_message import Kind
from routelog.vhosts.stored.policy_record import policy_change
from routelog.vhosts.stored.topology_record import queue_change
from routelog.vhosts.vhost.route_targets import AT_ONCE_MAX


class Front:
    """A node whose vhost `/` is led elsewhere; the test is the leader."""

    def __init__(self, node: Node, link: LeaderLink | None = None) -> None:
        self.node = node
        self.leader = ScriptedLeader()
        self.leader.open()
        self.closed: list[tuple[Set[object], str]] = []
        self.connections = FrontConnections("b", 100)
        self.vhosts = FrontVhosts(
            node.vhosts,
            link or self.leader.link,
            self.connections,
            lambda connections, reason: self.closed.append((connections, reason)),
        )
        self.vhosts.begin()
        self.definitions = node.vhost.definitions

    def defined(self, properties: QueueProperties, number: int = 9, owner: str = "") -> None:
        """The leader's journal has a queue."""
        change = queue_change("/", properties, [number], owner=owner)
        self.node.vhost.stored.apply(change, None)

    def gone(self, properties: QueueProperties) -> None:
        """The leader's journal has it no more."""
        change = queue_change("/", properties, [9], deleted=True)
        self.node.vhost.stored.apply(Change(change.key, None), None)


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    """A front."""
    async with running_node(tmp_path) as node:
        yield Front(node)


LASTING = QueueProperties("q", durable=True)


def may(_: Binding) -> None:
    """Any client may change it."""


async def test_a_declaration_is_the_leaders_and_its_answer_is_known_here(front: Front) -> None:
    declared = asyncio.ensure_future(value_of(front.definitions.declare_queue_of(LASTING, "c")))
    call = await front.leader.asked()
    method, vhost, actor, number, said = call_of(call)
    assert (method, vhost, actor, number) == ("declare_queue", "/", ["", "", ""], 0)
    assert (said["name"], said["durable"], said["exclusive"]) == ("q", True, False)
    front.defined(LASTING)
    front.leader.answers(call, [3, 1])
    assert await declared == (3, 1)
    handle = front.definitions.queue("q", "other")
    assert isinstance(handle, RemoteQueue)
    assert handle.number == 9
    assert front.node.vhost.targets.named("q") is handle


async def test_a_declared_queue_is_counted_by_the_same_answer(front: Front) -> None:
    declared = asyncio.ensure_future(value_of(front.definitions.declare_queue_of(LASTING, "c")))
    call = await front.leader.asked()
    front.defined(LASTING)
    front.leader.answers(call, [0, 0])
    front.gone(LASTING)  # somebody else was quick
    assert await declared == (0, 0)
    assert not front.leader.said()


async def test_a_passive_declaration_uses_the_queue_where_it_is_led(front: Front) -> None:
    front.defined(LASTING)
    declared = front.definitions.queue_declared("q", "c")
    await settled_down()
    _, call = front.leader.said()
    assert call_of(call) == ["counts"]
    front.leader.answers(call, [5, 2])
    assert await value_of(declared) == (5, 2)


async def test_a_refusal_of_the_leader_is_the_clients(front: Front) -> None:
    front.defined(LASTING)
    conditions = {"if_unused": True, "if_empty": False}
    deleted = front.definitions.delete_queue_of("q", "c", **conditions)
    front.leader.answers(await front.leader.asked(), QueueInUse("q", "/"))
    with pytest.raises(QueueInUse, match=r"in use"):
        await value_of(deleted)


async def test_a_change_that_meets_the_end_of_a_session_is_asked_of_the_next_one(
    front: Front,
) -> None:
    front.defined(LASTING)
    bound = front.definitions.bind(Binding("amq.direct", "q", "queue", "key"), may)
    await front.leader.asked()
    for _ in range(TRIES_MAX - 1):
        front.leader.session.lost("another node leads")
        await settled_down()
        front.leader.open()
        await front.leader.tells_all()
        call = await front.leader.asked()
    assert call_of(call)[0] == "bind_queue"
    front.leader.answers(call, 3)
    assert bound is not None
    assert await bound == 3


async def test_a_passive_declaration_is_asked_of_the_next_leader(front: Front) -> None:
    front.defined(LASTING)
    declared = front.definitions.queue_declared("q", "c")
    await settled_down()
    front.leader.session.lost("another node leads")
    front.leader.open()
    await settled_down()
    front.leader.answers(front.leader.said()[-1], [5, 2])
    assert await value_of(declared) == (5, 2)


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_queue_of_others_is_not_deleted_in_the_place_of_one_that_is(
    tmp_path: Path, is_open: bool
) -> None:
    async with running_node(tmp_path / "leader") as leader, running_node(tmp_path / "b") as node:
        piped = PipedFront(leader)
        front = Front(node, piped.link)
        queue = await value_of(leader.vhost.declare_queue(LASTING, None))
        front.defined(LASTING, queue.number)
        if not is_open:
            piped.cut()
        deleted = front.definitions.delete_queue_of("q", "c", if_unused=False, if_empty=False)
        if not is_open:
            piped.open()
            await settled_down()
            piped.carry()  # that others were told everything
        await settled_down()
        piped._to_leader.carry()
        assert queue.deleted
        piped.cut()  # before it is answered
        other = await value_of(leader.vhost.declare_queue(LASTING, None))
        piped.open()
        async with asyncio.timeout(WAIT_SECONDS):
            while not pending(deleted).done():
                leader.turns.run()
                piped.carry()
                await asyncio.sleep(0)
        if is_open:
            assert await value_of(deleted) == 0
        else:
            with pytest.raises(SessionLost):
                await value_of(deleted)
        assert not other.deleted
        piped.cut()
        leader.turns.run()


def delete(front: Front) -> asyncio.Future[int]:
    """A client deletes `q`."""
    deleted = front.definitions.delete_queue_of("q", "c", if_unused=False, if_empty=False)
    assert isinstance(deleted, asyncio.Future)
    return deleted


async def test_a_queue_that_is_not_known_here_is_deleted_where_it_is_led(front: Front) -> None:
    # Others may have declared it while this session, which looks open, had ended.
    deleted = delete(front)
    call = await front.leader.asked()
    assert call_of(call)[4]["number"] is None
    front.leader.session.lost("silent")
    with pytest.raises(SessionLost):  # and not that it is gone
        await deleted


async def test_a_queue_in_the_place_of_a_known_one_is_not_said_to_be_deleted(front: Front) -> None:
    front.defined(LASTING, 7)
    deleted = delete(front)
    assert call_of(await front.leader.asked())[4]["number"] == 7
    front.leader.session.lost("silent")
    await settled_down()
    front.gone(LASTING)
    front.defined(LASTING, 12)
    front.leader.open()
    await front.leader.tells_all()
    with pytest.raises(SessionLost):
        await deleted
    assert {each.kind for each in front.leader.said()} <= {Kind.QUEUE}


@pytest.mark.parametrize("is_another", [True, False])
async def test_a_queue_is_deleted_here_if_this_node_leads_it_now(
    front: Front, is_another: bool
) -> None:
    queue = await value_of(front.node.vhost.declare_queue(LASTING, None))
    front.defined(LASTING, queue.number - is_another)
    deleted = delete(front)
    await front.leader.asked()
    front.vhosts.freeze()
    front.vhosts.route_here()
    front.leader.session.lost("this node is to lead")
    front.vhosts.lead()
    if is_another:
        with pytest.raises(SessionLost):
            await deleted
    else:
        assert await deleted == 0
    assert queue.deleted is not is_another


@pytest.mark.parametrize("method", ["delete_exchange", "unbind_queue", "unbind_exchange"])
async def test_what_others_may_have_made_since_is_not_removed(front: Front, method: str) -> None:
    def removed() -> asyncio.Future[Any]:
        definitions: Any = front.definitions
        if method == "delete_exchange":
            return definitions.delete_exchange("x", if_unused=False)
        kind: Any = method.removeprefix("unbind_")
        return definitions.unbind(Binding("amq.direct", "q", kind, "key"), may)

    front.defined(LASTING)
    first = removed()
    await front.leader.asked()
    front.leader.session.lost("another node leads")
    unsent = removed()
    await settled_down()
    assert isinstance(first.exception(), SessionLost)
    front.leader.open()
    await front.leader.tells_all()
    call = await front.leader.asked()
    assert call_of(call)[0] == method
    front.leader.answers(call, 3)
    assert await unsent == 3


async def test_what_a_closed_connection_wanted_for_itself_is_not_asked_again(
    front: Front,
) -> None:
    properties = QueueProperties("mine", exclusive=True)
    declared = asyncio.ensure_future(value_of(front.definitions.declare_queue_of(properties, "c")))
    await front.leader.asked()
    front.leader.session.lost("another node leads")
    front.definitions.connection_closed("c")
    await settled_down()
    front.leader.open()
    call = await front.leader.asked()
    assert call_of(call) == ["connection_closed", "/", 100]  # nobody would delete the queue
    with pytest.raises(SessionLost):
        await declared


async def test_a_change_that_no_leader_takes_fails(front: Front) -> None:
    bound = front.definitions.delete_exchange("x", if_unused=False)
    for _ in range(TRIES_MAX):
        await settled_down()
        front.leader.link.session.lost("nobody leads")
    assert bound is not None
    with pytest.raises(SessionLost):
        await bound


@pytest.mark.parametrize("was_open", [False, True])
async def test_a_change_waits_once_for_a_leader(front: Front, was_open: bool) -> None:
    front.defined(LASTING)
    if not was_open:
        front.leader.session.lost("another node leads")
    changes = [
        front.definitions.declare_queue_of(LASTING, "c"),
        front.definitions.queue_declared("q", "c"),
        front.definitions.queue("late", "c"),
        front.definitions.bind(Binding("x", "q", "queue", "key"), may),
        front.definitions.declare_queue_of(QueueProperties("mine", exclusive=True), "c"),
    ]
    await settled_down()
    if was_open:
        front.leader.session.lost("another node leads")
        await settled_down()
    front.leader.link.give_up("nobody leads")
    await settled_down()
    for change in changes:
        assert isinstance(change, asyncio.Future)
        assert change.done()
        assert isinstance(change.exception(), SessionLost)
    front.leader.open()
    assert {each.kind for each in front.leader.said()} <= {Kind.QUEUE}  # they are over


async def test_a_change_behind_many_lost_sessions_is_made_here_when_this_node_leads(
    front: Front,
) -> None:
    declared = asyncio.ensure_future(value_of(front.definitions.declare_queue_of(LASTING, "c")))
    for tries_left in reversed(range(TRIES_MAX - 1)):
        await settled_down()
        front.leader.session.lost("another node leads")
        if tries_left:
            front.leader.open()
    await settled_down()
    front.vhosts.freeze()
    front.vhosts.route_here()
    front.vhosts.lead()
    assert await declared == (0, 0)
    assert "q" in front.node.vhost.queues


async def test_an_exclusive_queue_is_its_connections_and_goes_with_the_leader(
    front: Front,
) -> None:
    mine = QueueProperties("mine", exclusive=True)
    declared = front.definitions.declare_queue_of(mine, "c")
    call = await front.leader.asked()
    front.defined(mine, owner="b/100")
    front.leader.answers(call, [0, 0])
    await value_of(declared)
    front.definitions.check_access("mine", "c")
    for check in (front.definitions.queue, front.definitions.check_access):
        with pytest.raises(QueueLocked):
            check("mine", "other")
    front.vhosts.session_lost()
    assert [connections for connections, _ in front.closed] == [{"c"}]


async def test_who_owns_nothing_stays_when_the_leader_is_lost(front: Front) -> None:
    mine = QueueProperties("mine", exclusive=True)
    made = front.definitions.declare_queue_of(mine, "maker")
    call = await front.leader.asked()
    front.defined(mine, owner="b/100")
    front.leader.answers(call, [0, 0])
    await value_of(made)
    front.gone(mine)
    refused = front.definitions.declare_queue_of(mine, "refused")
    front.leader.answers(await front.leader.asked(), QueueLocked("mine", "/"))
    with pytest.raises(QueueLocked):
        await value_of(refused)
    asking = front.definitions.declare_queue_of(mine, "asking")
    await front.leader.asked()
    front.vhosts.session_lost()
    assert [connections for connections, _ in front.closed] == [set()]
    front.leader.session.lost("another node leads")
    await settled_down()
    front.leader.open()
    await front.leader.tells_all()
    front.leader.answers(await front.leader.asked(), [0, 0])
    assert await value_of(asking) == (0, 0)


async def test_the_leader_hears_of_connections_that_may_own_queues(front: Front) -> None:
    assert front.definitions.connection_closed("stranger") is None
    declared = front.definitions.declare_queue_of(LASTING, "c")
    front.leader.answers(await front.leader.asked(), [0, 0])
    await value_of(declared)
    assert front.definitions.connection_closed("c") is None
    assert not front.leader.said()


@pytest.mark.parametrize("end", ["answered", "lost"])
async def test_an_owner_has_closed_when_its_queues_are_gone(front: Front, end: str) -> None:
    mine = QueueProperties("mine", exclusive=True)
    declared = front.definitions.declare_queue_of(mine, "c")
    front.leader.answers(await front.leader.asked(), [0, 0])
    front.defined(mine, owner="b/100")
    await value_of(declared)
    closed = front.definitions.connection_closed("c")
    assert closed is not None
    call = await front.leader.asked()
    assert call_of(call) == ["connection_closed", "/", 100]
    assert not closed.done()
    if end == "answered":
        front.leader.answers(call, None)
    else:
        front.leader.session.lost("another node leads")
    await closed
    assert front.definitions.connection_closed("c") is None


@pytest.mark.parametrize("end", ["answered", "lost"])
async def test_what_was_sent_is_carried_out_when_the_leader_says_so(front: Front, end: str) -> None:
    done = front.definitions.carried_out()
    assert done is not None
    call = await front.leader.asked()
    assert call_of(call) == ["carried_out"]
    assert not done.done()
    if end == "answered":
        front.leader.answers(call, None)
    else:
        front.leader.session.lost("another node leads")
    await done
    if end == "lost":
        assert front.definitions.carried_out() is None


@pytest.mark.parametrize("is_there", [True, False])
async def test_the_leader_has_told_of_a_queue_that_is_not_known_here(
    front: Front, is_there: bool
) -> None:
    front.definitions.check_access("q", "c")
    found = asyncio.ensure_future(value_of(front.definitions.queue("q", "c")))
    call = await front.leader.asked()
    assert call_of(call) == ["carried_out"]
    if is_there:
        front.defined(LASTING)
    front.leader.answers(call, None)
    if is_there:
        assert (await found).name == "q"
    else:
        with pytest.raises(QueueNotFound):
            await found
    assert not front.leader.said()


@pytest.mark.parametrize("was_there", [True, False])
async def test_a_queue_is_looked_for_when_its_leader_is_known(
    front: Front, was_there: bool
) -> None:
    if was_there:
        front.defined(LASTING)
    front.leader.session.lost("another node leads")
    found = front.definitions.queue("q", "c")
    counted = front.definitions.queue_declared("q", "c")
    await settled_down()
    if was_there:
        front.gone(LASTING)
    front.defined(LASTING, 12)
    front.leader.open()
    await settled_down()
    for call in front.leader.said():
        assert call_of(call) == ["carried_out"]
        front.leader.answers(call, None)
    assert await value_of(found) is front.node.vhost.targets.named("q")
    await settled_down()
    front.leader.answers(front.leader.said()[-1], [5, 2])
    assert await value_of(counted) == (5, 2)


async def test_a_queue_is_looked_for_here_when_this_node_leads(front: Front) -> None:
    front.leader.session.lost("this node is to lead")
    found = front.definitions.queue("q", "c")
    await settled_down()
    front.vhosts.freeze()
    queue = await value_of(front.node.vhost.declare_queue(LASTING, "c"))
    front.vhosts.route_here()
    front.vhosts.lead()
    assert await value_of(found) is queue


@pytest.mark.parametrize("method", ["bind", "unbind"])
async def test_who_may_bind_is_checked_for_each_leader(front: Front, method: str) -> None:
    refusals: list[Exception] = []

    def check(_: Binding) -> None:
        for refusal in refusals:
            raise refusal

    front.defined(LASTING)
    bound = getattr(front.definitions, method)(Binding("amq.direct", "q", "queue", "key"), check)
    front.leader.session.lost("another node leads")
    await settled_down()
    refusals.append(QueueLocked("q", "/"))  # it was declared again meanwhile
    front.leader.open()
    await front.leader.tells_all()
    with pytest.raises(QueueLocked):
        await bound
    assert not front.leader.said()


async def test_the_leader_knows_whether_an_exchange_is_there(front: Front) -> None:
    known = front.definitions.exchange_declared("x")
    call = await front.leader.asked()
    assert call_of(call) == ["exchange_declared", "/", ["", "", ""], 0, {"name": "x"}]
    front.leader.answers(call, None)
    assert known is not None
    await known


async def test_a_queue_that_is_declared_again_is_another_one(front: Front) -> None:
    front.defined(LASTING)
    before = front.definitions.queue("q", "c")
    assert isinstance(before, RemoteQueue)
    front.gone(LASTING)
    assert before.deleted
    front.defined(LASTING, 12)
    after = front.definitions.queue("q", "c")
    assert isinstance(after, RemoteQueue)
    assert (after.number, after.deleted) == (12, False)


async def test_a_queue_goes_by_policies_of_its_leader(front: Front) -> None:
    front.defined(LASTING)
    handle = front.definitions.queue("q", "c")
    assert not handle.may_refuse
    policy = Policy("p", "q", {"max-length": 1, "overflow": "reject-publish"}, 0, "queues")
    front.node.vhost.stored.apply(policy_change("/", policy), None)
    assert handle.may_refuse


async def test_routes_to_very_many_queues_lead_to_all_that_are_known(front: Front) -> None:
    names = [f"q{n}" for n in range(AT_ONCE_MAX + 1)]
    for number, name in enumerate(names, 20):
        front.defined(QueueProperties(name, durable=True), number)
    found = front.node.vhost.targets.gradually(tuple(names))
    assert [each.name for each in found] == names


async def test_a_node_that_leads_serves_its_own_queues(front: Front) -> None:
    vhost = front.node.vhost
    front.defined(LASTING)
    gone = front.definitions.queue("q", "c")
    front.vhosts.freeze()
    vhost.stored.queues.clear()
    assert front.definitions.queue("q", "c") is gone
    queue = await value_of(vhost.declare_queue(LASTING, "c"))
    front.vhosts.route_here()
    front.vhosts.lead()
    assert vhost.definitions is vhost
    assert vhost.targets.named("q") is queue
    assert gone.deleted  # it had another number
