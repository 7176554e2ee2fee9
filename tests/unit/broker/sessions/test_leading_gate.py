"""A node that leads takes publishes, and answers, as long as no other one can: nobody tells who stood still."""

from __future__ import annotations

import asyncio
from math import inf

from support.queue_samples import Turns

from routelog.broker.sessions.leading_gate import LOOK_SECONDS, LeadingGate
from routelog.broker.waiting.gate import Gate


class Leader:
    """A gate, and until when no other node can lead."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.gate = Gate(asyncio.get_running_loop())
        self.until = self.now() + 1.0
        self.leading = LeadingGate(self.gate, lambda: self.until, self.now, self.turns.call_later)
        self.leading.begin(frozenset())

    def now(self) -> float:
        """By its clock."""
        return self.turns.clock.microseconds / 1_000_000


async def test_publishers_wait_while_another_node_may_lead() -> None:
    leader = Leader()
    assert not leader.gate.closed
    assert leader.gate.lapses_at == leader.until
    leader.turns.clock.microseconds += 1_000_000
    leader.gate.lapse()  # as who reads publishes does
    assert leader.gate.reasons == {"leader"}
    assert leader.gate.lapses_at == inf
    leader.turns.pass_seconds(2 * LOOK_SECONDS)
    assert leader.gate.closed
    leader.until = leader.now() + 1.0
    leader.turns.pass_seconds(2 * LOOK_SECONDS)
    assert not leader.gate.closed
    assert leader.gate.lapses_at == leader.until
    assert leader.turns.waiting == 0


async def test_a_leader_that_others_have_answered_meanwhile_goes_on() -> None:
    leader = Leader()
    leader.until += 5.0
    leader.turns.clock.microseconds += 1_000_000
    leader.gate.lapse()
    assert not leader.gate.closed
    assert leader.gate.lapses_at == leader.until


async def test_publishers_wait_for_other_reasons_too() -> None:
    leader = Leader()
    leader.leading.pressed({"disk"})
    assert leader.gate.reasons == {"disk"}
    leader.until = 0.0
    leader.gate.lapse()
    assert leader.gate.reasons == {"disk", "leader"}
    leader.leading.pressed(frozenset())
    assert leader.gate.reasons == {"leader"}
    leader.leading.stop()
    assert leader.turns.waiting == 0


async def test_answers_wait_while_another_node_may_lead() -> None:
    leader = Leader()
    assert leader.leading.sure() is None
    leader.turns.clock.microseconds += 1_000_000  # it stood still: nobody has looked
    first, second = leader.leading.sure(), leader.leading.sure()
    assert first is not None
    assert second is not None
    assert leader.gate.closed
    first.cancel()  # its client has left
    leader.turns.pass_seconds(2 * LOOK_SECONDS)
    assert not second.done()
    leader.until = leader.now() + 1.0
    leader.turns.pass_seconds(2 * LOOK_SECONDS)
    assert leader.leading.sure() is None
    async with asyncio.timeout(30):
        await second
