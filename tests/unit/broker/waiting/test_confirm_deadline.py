"""Who is told, and when, that a replicated journal does not advance."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.queue_samples import Turns

from routelog.amqp_front.publishing.confirm_sender import ConfirmSender
from routelog.broker.waiting.confirm_deadline import ConfirmDeadline
from routelog.log_backend import NOTHING, NotReplicated, Progress
from routelog.vhosts import UNCOUNTED

SECONDS = 10.0
LOOK = SECONDS / 10
ACK, NACK = 80, 120


class Leader:
    """A leader's journal, whose blocks others store when the test says so, and a channel that publishes."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.progress = Progress(self.turns.call_soon, float)
        self.end = 0
        self.deadline = ConfirmDeadline(
            self.progress, lambda: self.end, SECONDS, self.turns.call_later
        )
        self.deadline.start()
        channel = SimpleNamespace(
            number=1,
            write=self._write,
            services=SimpleNamespace(progress=self.progress),
            counters=UNCOUNTED,
        )
        self.sender = ConfirmSender(cast(Any, channel))
        self._sent: list[tuple[int, int]] = []

    def _write(self, frame: bytes) -> None:
        self._sent.append((frame[10], int.from_bytes(frame[11:19], "big")))

    def publish(self, count: int = 1, *, is_block_made: bool = True) -> None:
        self.sender.published(count, (), self.progress.receipt(self.end + 1, self.end + 1))
        if is_block_made:
            self.end += 1

    def take_sent(self) -> list[tuple[int, int]]:
        self.turns.run()
        sent, self._sent = self._sent, []
        return sent


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_a_publish_that_nobody_else_stores_is_refused_once_and_never_confirmed(
    leader: Leader,
) -> None:
    leader.publish(3)
    leader.turns.pass_seconds(SECONDS)
    assert leader.take_sent() == []
    leader.turns.pass_seconds(LOOK)
    assert leader.take_sent() == [(NACK, 3)]
    leader.turns.pass_seconds(3 * SECONDS)
    leader.progress.advance(9, 9)
    assert leader.take_sent() == []


def test_each_publish_has_the_same_time(leader: Leader) -> None:
    sent_at: dict[int, float] = {}
    for second in range(60):
        if second % 4 == 0:
            leader.publish()
        leader.turns.pass_seconds(1)
        for method, tag in leader.take_sent():
            assert method == NACK
            sent_at[tag] = second + 1
    waited = {at - 4 * (tag - 1) for tag, at in sent_at.items()}
    assert len(sent_at) > 10
    assert min(waited) >= SECONDS
    assert max(waited) <= SECONDS + LOOK


def test_what_is_stored_in_time_is_confirmed(leader: Leader) -> None:
    for _ in range(40):
        leader.publish()
        leader.turns.pass_seconds(SECONDS - LOOK)
        leader.progress.advance(leader.end, leader.end)
    assert [method for method, _ in leader.take_sent()] == [ACK] * 40


def test_what_waits_behind_a_late_publish_and_needs_nothing_is_confirmed(leader: Leader) -> None:
    leader.publish()
    leader.turns.pass_seconds(SECONDS - LOOK)
    leader.sender.published(1, (), NOTHING)
    leader.sender.published(1, {0}, NOTHING)
    leader.publish()
    leader.turns.pass_seconds(2 * LOOK)
    assert leader.take_sent() == [(NACK, 1), (ACK, 2), (NACK, 3)]
    leader.progress.advance(9, 9)
    assert leader.take_sent() == [(ACK, 4)]


def test_a_process_that_was_stopped_refuses_nothing_for_that(leader: Leader) -> None:
    leader.publish()
    leader.turns.clock.microseconds += 60_000_000
    leader.turns.pass_seconds(0)
    assert leader.take_sent() == []
    leader.progress.advance(1, 1)
    assert leader.take_sent() == [(ACK, 1)]


def test_what_joins_a_block_that_gathered_for_long_has_its_own_time(leader: Leader) -> None:
    leader.publish(is_block_made=False)
    leader.turns.pass_seconds(3 * SECONDS)
    assert leader.take_sent() == []
    leader.publish()
    leader.turns.pass_seconds(SECONDS)
    assert leader.take_sent() == []
    leader.turns.pass_seconds(LOOK)
    assert leader.take_sent() == [(NACK, 2)]


def test_the_log_says_when_it_begins_and_when_it_is_over(
    leader: Leader, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    leader.publish()
    leader.turns.pass_seconds(5 * SECONDS)
    leader.progress.advance(9, 9)
    leader.turns.pass_seconds(5 * SECONDS)
    began, over = (record.getMessage() for record in caplog.records)
    assert "get basic.nack" in began
    assert "confirmed again" in over


def test_a_stopped_deadline_looks_no_more(leader: Leader) -> None:
    leader.publish()
    leader.deadline.stop()
    assert leader.turns.waiting == 0


async def test_another_answer_fails_behind_its_time_and_what_it_waits_for_goes_on(
    leader: Leader,
) -> None:
    loop = asyncio.get_running_loop()
    first, second, done, failed = (loop.create_future() for _ in range(4))
    leader.publish()
    answers = [leader.deadline.in_time(first)]
    leader.turns.pass_seconds(SECONDS - LOOK)
    answers += [leader.deadline.in_time(each) for each in (second, done, failed)]
    done.set_result(5)
    failed.set_exception(ValueError("bad"))
    leader.turns.pass_seconds(2 * LOOK)
    with pytest.raises(NotReplicated, match="too few nodes have stored it in 10 s"):
        await answers[0]
    assert await answers[2] == 5
    with pytest.raises(ValueError, match="bad"):
        await answers[3]
    first.set_exception(ValueError("nobody asks any more"))
    second.set_result(6)
    assert await answers[1] == 6


async def test_a_long_answer_is_waited_for_while_the_journal_advances(leader: Leader) -> None:
    slow = asyncio.get_running_loop().create_future()
    answer = asyncio.ensure_future(leader.deadline.in_time(slow))
    for _ in range(40):
        leader.publish()
        leader.turns.pass_seconds(SECONDS / 2)
        leader.progress.advance(leader.end, leader.end)
    assert not answer.done()
    slow.set_result(None)
    await answer


async def test_who_gives_up_ends_what_is_waited_for(leader: Leader) -> None:
    waited = asyncio.get_running_loop().create_future()
    answer = asyncio.ensure_future(leader.deadline.in_time(waited))
    answer.cancel()
    await asyncio.wait([waited])
    assert waited.cancelled()
    leader.publish()
    leader.turns.pass_seconds(2 * SECONDS)
