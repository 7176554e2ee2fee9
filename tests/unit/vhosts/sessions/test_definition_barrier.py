"""An answer waits for every node that routes, and for none of them for ever."""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass

import pytest
from support.queue_samples import Turns

from routelog.vhosts.sessions.definition_barrier import (
    LEASE_SECONDS,
    TELLING,
    DefinitionBarrier,
)

SEEDS = int(os.environ.get("ROUTELOG_TEST_EXAMPLES", "50"))
STEPS = 200


class Leader:
    """A barrier, and what it asks for.

    Attributes:
        asked, late: what it was told, in order.
    """

    def __init__(self) -> None:
        self.turns = Turns()
        self.asked: list[tuple[int, int]] = []
        self.late: list[int] = []
        self.barrier = DefinitionBarrier[int](
            lambda session, position: self.asked.append((session, position)),
            self.late.append,
            self.turns.call_later,
        )

    def gate(self, position: int) -> asyncio.Future[int]:
        """One that somebody has to wait for."""
        gate = self.barrier.gate(position)
        assert gate is not None
        return gate


@pytest.fixture
async def leader() -> Leader:
    return Leader()


async def test_nobody_is_waited_for_where_nobody_has_a_session(leader: Leader) -> None:
    assert leader.barrier.gate(1) is None
    assert leader.turns.waiting == 0


async def test_a_change_waits_for_all_sessions_and_each_is_asked_once(leader: Leader) -> None:
    for session in (1, 2, 3):
        assert leader.barrier.opened(session, f"n{session}", 5 + session) == 0
    gate = leader.gate(7)
    assert leader.gate(7) is gate
    assert leader.asked == [(1, 7)]
    leader.barrier.applied(1, 6)
    assert not gate.done()
    leader.barrier.applied(1, 8)
    assert gate.done()
    assert leader.barrier.gate(7) is None
    assert leader.turns.waiting == 0


async def test_a_session_that_is_silent_is_told_late_once_and_waited_for_until_it_is_closed(
    leader: Leader,
) -> None:
    for session in (1, 2):
        leader.barrier.opened(session, "", 1)
    first, second = leader.gate(2), leader.gate(3)
    leader.barrier.applied(2, 3)
    leader.turns.pass_seconds(LEASE_SECONDS - 0.01)
    assert leader.late == []
    leader.turns.pass_seconds(0.02)
    assert leader.late == [1]
    assert not first.done()
    leader.barrier.closed(1)
    assert first.done()
    assert second.done()
    leader.barrier.applied(1, 9)  # on its way when it was closed
    assert leader.barrier.gate(4) is not None
    assert leader.asked[-1] == (2, 4)


async def test_an_owner_may_close_a_late_session_at_once() -> None:
    turns, late = Turns(), list[str]()

    def close(session: str) -> None:
        late.append(session)
        barrier.closed(session)

    barrier = DefinitionBarrier[str](lambda session, position: None, close, turns.call_later)
    for session in ("x", "y"):
        barrier.opened(session, "", 0)
    gate = barrier.gate(1)
    assert gate is not None
    turns.pass_seconds(LEASE_SECONDS)
    assert (late, gate.done()) == (["x", "y"], True)


async def test_a_session_that_opens_is_told_what_it_must_have_and_nobody_waits_for_it(
    leader: Leader,
) -> None:
    leader.barrier.opened(1, "", 0)
    gate = leader.gate(4)
    assert leader.barrier.opened(2, "", 3) == 4
    leader.barrier.applied(1, 4)
    assert gate.done()
    following = leader.gate(5)
    leader.barrier.applied(1, 5)
    assert not following.done()
    leader.barrier.applied(2, 5)
    assert following.done()


async def test_no_change_waits_for_a_node_that_is_being_told_of_all(leader: Leader) -> None:
    assert leader.barrier.opened(1, "a", TELLING) == 0
    assert leader.barrier.gate(3) is None
    leader.barrier.told(1)
    assert leader.barrier.gate(3) is None  # that was told, too
    gate = leader.gate(4)
    assert leader.asked == [(1, 4)]
    leader.barrier.applied(1, 4)
    assert gate.done()
    leader.barrier.closed(1)
    leader.barrier.told(1)
    assert leader.barrier.opened(2, "a", 0) == 4
    assert leader.barrier.gate(4) is None


async def test_a_new_leader_waits_for_the_sessions_of_all_nodes(leader: Leader) -> None:
    leader.barrier.expect(["a", "b"], 0)
    gate = leader.gate(9)
    leader.barrier.opened(1, "a", 9)
    assert not gate.done()
    leader.barrier.opened(2, "b", 3)
    assert gate.done()
    assert leader.asked == []


async def test_what_a_leader_before_has_answered_waits_for_the_sessions_of_all_nodes(
    leader: Leader,
) -> None:
    assert leader.barrier.known() is None
    leader.barrier.expect({"a", "b"}, 7)
    leader.barrier.opened(1, "a", 7)
    known = leader.barrier.known()
    assert known is not None
    await asyncio.sleep(0)
    assert not known.done()
    leader.barrier.opened(2, "b", 6)
    assert await known == 7
    leader.barrier.applied(1, 7)
    leader.barrier.applied(2, 7)
    leader.barrier.closed(1)
    assert leader.barrier.known() is None  # what the other node was told stays true


async def test_a_new_leader_does_not_wait_for_a_node_that_does_not_come(leader: Leader) -> None:
    leader.barrier.expect(["a", "b"], 0)
    leader.barrier.opened(1, "a", 3)
    gate = leader.gate(4)
    leader.barrier.applied(1, 4)
    leader.turns.pass_seconds(LEASE_SECONDS)
    assert gate.done()
    assert leader.late == []
    assert leader.barrier.gate(4) is None


async def test_time_does_not_count_for_a_node_that_leads_no_more(leader: Leader) -> None:
    leader.barrier.expect(["a"], 0)
    leader.barrier.opened(1, "b", 1)
    leader.gate(2)
    leader.barrier.stop()
    assert leader.turns.waiting == 0


async def test_a_node_whose_session_ends_is_waited_for_as_it_may_not_know(leader: Leader) -> None:
    for session, node in ((1, "a"), (2, "b"), (3, "c")):
        leader.barrier.opened(session, node, 0)
    gate = leader.gate(1)
    leader.barrier.closed(1)
    leader.barrier.closed(2, is_silent=True)
    leader.barrier.applied(3, 1)
    assert not gate.done()
    leader.turns.pass_seconds(LEASE_SECONDS - 0.01)
    assert not gate.done()
    leader.turns.pass_seconds(0.02)
    assert gate.done()
    assert leader.late == []


async def test_a_node_whose_process_has_ended_is_not_waited_for(leader: Leader) -> None:
    leader.barrier.opened(1, "a", 0)
    leader.barrier.closed(1)
    gate = leader.gate(1)
    leader.barrier.gone("b")
    assert not gate.done()
    leader.barrier.gone("a")
    assert gate.done()
    assert leader.turns.waiting == 0


async def test_a_node_that_begins_another_session_knows_that_the_one_before_has_ended(
    leader: Leader,
) -> None:
    leader.barrier.opened(1, "a", 0)
    leader.barrier.closed(1)
    assert leader.barrier.opened(2, "a", 0) == 0
    assert leader.barrier.gate(0) is None


@dataclass
class Wait:
    """One change, as a stupid model sees it: whom it waits for, and until when."""

    position: int
    gate: asyncio.Future[int] | None
    sessions: set[int]
    ends: int
    is_over: bool = False


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_it_does_what_a_list_of_all_that_was_said_says(seed: int) -> None:
    choice, leader = random.Random(seed), Leader()
    barrier, said, waits = leader.barrier, dict[int, int](), list[Wait]()
    asked, late, position, sessions, now = list[tuple[int, int]](), set[int](), 0, 0, 0
    nodes, expected = dict[int, str](), dict[str, int]()  # until when
    if choice.random() < 0.5:
        expected = {"n0": 20, "n1": 20}
        barrier.expect(sorted(expected), 0)
    for _ in range(STEPS):
        what = choice.randrange(6)
        if what == 0:
            sessions += 1
            node, applied = f"n{choice.randrange(4)}", choice.randint(0, position)
            assert barrier.opened(sessions, node, applied) == position
            said[sessions] = position
            nodes[sessions] = node
            expected.pop(node, None)
        elif what == 1 and said:
            session = choice.choice([*said])
            said[session] = max(said[session], choice.randint(0, position + 2))
            barrier.applied(session, said[session])
        elif what == 2 and said and choice.random() < 0.3:
            session = choice.choice([*said])
            del said[session]
            is_silent = choice.random() < 0.3
            if not is_silent and session not in late:
                expected[nodes[session]] = now + 20
            barrier.closed(session, is_silent=is_silent)
        elif what == 2 and choice.random() < 0.1:
            gone = f"n{choice.randrange(4)}"
            expected.pop(gone, None)
            barrier.gone(gone)
        elif what == 3:
            position += choice.randint(0, 2)
            behind = {session for session, applied in said.items() if applied < position}
            is_new = not any(each.position == position for each in waits)
            gate = barrier.gate(position)
            assert (gate is None) is not (behind or expected)
            if is_new:
                asked += [(session, position) for session in sorted(behind)]
                waits.append(Wait(position, gate, behind, now + 20))
        else:
            leader.turns.pass_seconds(0.1)
            now += 1
            expected = {node: until for node, until in expected.items() if now < until}
        for wait in waits:
            open_behind = {s for s in wait.sessions if said.get(s, wait.position) < wait.position}
            if now >= wait.ends:
                late |= open_behind
            wait.is_over = wait.is_over or not (open_behind or expected)
            if wait.gate is not None:
                assert wait.gate.done() is wait.is_over
        assert sorted(leader.asked) == sorted(asked)
        assert len(leader.late) == len(set(leader.late))
        assert set(leader.late) == late


async def test_a_session_begins_with_all_that_earlier_leaders_have_answered(leader: Leader) -> None:
    leader.barrier.expect([], 40)
    assert leader.barrier.opened(1, "a", 0) == 40
    assert leader.barrier.gate(39) is None  # it was submitted before
    assert leader.barrier.opened(2, "b", 0) == 40


async def test_a_leader_that_was_to_hand_over_expects_all_nodes_again(leader: Leader) -> None:
    leader.barrier.expect(["a", "b"], 0)
    leader.barrier.opened(1, "a", 3)
    gate = leader.barrier.gate(4)
    assert gate is not None
    leader.barrier.stop()
    leader.barrier.closed(1)
    leader.barrier.expect(["a", "b"], 4)
    leader.barrier.opened(2, "a", 3)
    assert not gate.done()
    leader.turns.pass_seconds(LEASE_SECONDS)
    assert gate.done()


async def test_who_is_no_node_any_more_is_expected_for_a_lease_alone(leader: Leader) -> None:
    leader.barrier.expect(["a", "b"], 0)
    gate = leader.gate(4)
    leader.barrier.stop()  # it was to hand over, and goes on; "b" was removed meanwhile
    leader.barrier.expect(["a"], 4)
    leader.barrier.gone("a")
    assert not gate.done()
    leader.turns.pass_seconds(LEASE_SECONDS)
    assert gate.done()


async def test_all_are_back_when_each_node_has_said_what_it_has_applied_or_is_gone(
    leader: Leader,
) -> None:
    back: list[bool] = []
    leader.barrier.on_all_back = lambda: back.append(True)
    leader.barrier.opened(1, "a", 0)
    assert leader.barrier.is_complete
    leader.barrier.expect(["a", "b", "c", "d"], 7)
    leader.barrier.opened(2, "a", 0)
    leader.barrier.gone("b")
    leader.barrier.opened(3, "c", 0)
    leader.barrier.applied(2, 7)
    leader.barrier.closed(3)  # and begins another session
    leader.barrier.opened(4, "c", 0)
    leader.turns.pass_seconds(LEASE_SECONDS)  # of "d"
    assert not back
    leader.barrier.applied(4, 0)
    assert back == [True]
    leader.barrier.opened(5, "b", 0)
    leader.barrier.applied(5, 7)
    assert back == [True]


async def test_nobody_is_back_at_a_leader_that_hands_over(leader: Leader) -> None:
    back: list[bool] = []
    leader.barrier.on_all_back = lambda: back.append(True)
    leader.barrier.expect(["a"], 0)
    leader.barrier.opened(1, "a", 0)
    leader.barrier.stop()
    leader.barrier.closed(1, is_silent=True)
    assert not back
    leader.barrier.expect([], 0)  # it goes on
    assert back == [True]


class Consumers:
    """What a leader knows of the consumers of other nodes.

    Attributes:
        events: what the barrier has said.
    """

    def __init__(self, leader: Leader) -> None:
        self.events: list[str] = []
        self._barrier = leader.barrier
        leader.barrier.on_away = lambda: self.events.append("away")
        leader.barrier.on_all_back = lambda: self.events.append("back")

    def told(self) -> list[str]:
        """The events since the last call, and whether that is what it says itself."""
        events, self.events = self.events, []
        assert not events or self._barrier.are_away is (events[-1] == "away")
        return events


@pytest.fixture
async def consumers(leader: Leader) -> Consumers:
    """Of two nodes that have sessions 1 and 2 with a leader."""
    consumers = Consumers(leader)
    leader.barrier.expect(["a", "b"], 0)
    for session, node in ((1, "a"), (2, "b")):
        leader.barrier.opened(session, node, 0)
        assert consumers.told() == []
        leader.barrier.applied(session, 0)
    assert consumers.told() == ["back"]
    return consumers


async def test_consumers_are_away_until_the_next_session_has_brought_them_back(
    leader: Leader, consumers: Consumers
) -> None:
    leader.barrier.closed(1)
    assert consumers.told() == ["away"]
    assert leader.barrier.known() is None  # nothing is new of what was before this leader
    leader.barrier.opened(3, "a", 0)
    leader.barrier.applied(2, 0)
    assert consumers.told() == []
    leader.barrier.applied(3, 0)
    assert consumers.told() == ["back"]
    leader.barrier.closed(3)
    leader.barrier.closed(2)
    leader.barrier.opened(4, "a", 0)
    leader.barrier.applied(4, 0)
    assert consumers.told() == ["away", "away"]
    leader.barrier.gone("b")
    assert consumers.told() == ["back"]


async def test_consumers_of_a_silent_node_do_not_come_back(
    leader: Leader, consumers: Consumers
) -> None:
    leader.barrier.closed(1, is_silent=True)
    assert consumers.told() == []
    leader.barrier.closed(2)
    leader.barrier.opened(3, "b", 0)
    leader.barrier.closed(3, is_silent=True)
    assert consumers.told() == ["away", "back"]


async def test_a_node_without_consumers_is_not_awaited(
    leader: Leader, consumers: Consumers
) -> None:
    leader.barrier.closed(1, has_consumers=False)
    assert consumers.told() == []
    assert not leader.barrier.are_away
    assert leader.barrier.expected == {"a"}


async def test_consumers_are_away_for_a_lease_though_more_sessions_end(
    leader: Leader, consumers: Consumers
) -> None:
    leader.barrier.closed(1)
    for session in (3, 4):  # its definitions are late
        leader.barrier.opened(session, "a", 0)
        leader.turns.pass_seconds(0.4 * LEASE_SECONDS)
        leader.barrier.closed(session)
    leader.barrier.opened(5, "a", 0)
    assert consumers.told() == ["away"]
    leader.turns.pass_seconds(0.2 * LEASE_SECONDS)
    assert consumers.told() == ["back"]
    leader.barrier.closed(5)
    assert consumers.told() == []
    leader.barrier.opened(6, "a", 0)
    leader.barrier.applied(6, 0)
    leader.barrier.closed(6)
    assert consumers.told() == ["away"]


async def test_a_node_has_all_the_time_that_it_takes_to_bring_its_consumers_back(
    leader: Leader, consumers: Consumers
) -> None:
    leader.barrier.closed(1)
    leader.barrier.opened(3, "a", TELLING)
    leader.turns.pass_seconds(9 * LEASE_SECONDS)
    leader.barrier.told(3)
    for _ in range(9):
        leader.turns.pass_seconds(LEASE_SECONDS)
        leader.barrier.comes_back(3)
    assert consumers.told() == ["away"]
    leader.barrier.applied(3, 0)
    assert consumers.told() == ["back"]
    leader.barrier.comes_back(3)
    assert leader.turns.waiting == 0


async def test_a_node_that_brings_no_more_consumers_has_none(
    leader: Leader, consumers: Consumers
) -> None:
    leader.barrier.closed(1)
    leader.barrier.opened(3, "a", 0)
    leader.barrier.comes_back(3)
    leader.turns.pass_seconds(LEASE_SECONDS)
    assert consumers.told() == ["away"]
    leader.turns.pass_seconds(LEASE_SECONDS)
    assert consumers.told() == ["back"]
    leader.barrier.closed(2)
    leader.barrier.opened(4, "b", 0)  # and brings none, as it cannot apply what it must
    leader.turns.pass_seconds(LEASE_SECONDS)
    assert consumers.told() == ["away", "back"]
    assert leader.turns.waiting == 0


async def test_consumers_of_a_node_that_is_late_come_back(
    leader: Leader, consumers: Consumers
) -> None:
    gate = leader.gate(1)
    leader.barrier.applied(2, 1)
    leader.turns.pass_seconds(LEASE_SECONDS)
    assert leader.late == [1]
    leader.barrier.closed(1)
    assert gate.done()  # it routes no longer
    assert consumers.told() == ["away"]
    assert not leader.barrier.expected
    leader.barrier.opened(3, "a", 0)
    leader.barrier.applied(3, 1)
    assert consumers.told() == ["back"]


async def test_consumers_that_a_late_node_had_at_the_leader_before_come_back_in_a_lease(
    leader: Leader,
) -> None:
    consumers = Consumers(leader)
    leader.barrier.expect(["a"], 0)
    leader.barrier.opened(1, "a", 0)
    leader.gate(1)
    leader.turns.pass_seconds(LEASE_SECONDS)
    leader.barrier.closed(1)
    leader.turns.pass_seconds(0.9 * LEASE_SECONDS)
    assert leader.barrier.are_away
    leader.turns.pass_seconds(0.1 * LEASE_SECONDS)
    assert consumers.told() == ["away", "back"]


async def test_no_consumers_are_awaited_by_who_leads_no_more(
    leader: Leader, consumers: Consumers
) -> None:
    leader.barrier.closed(1)
    assert consumers.told() == ["away"]
    leader.barrier.stop()
    leader.barrier.closed(2)
    leader.turns.pass_seconds(LEASE_SECONDS)
    assert consumers.told() == []
    assert not leader.barrier.are_away
