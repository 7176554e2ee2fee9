"""Questions about the clients of a front: what a leader is told of them, in pieces, and what it waits for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest
from support.queue_samples import Turns

from routelog.vhosts.nodes.node_questions import (
    QUESTIONS_MAX,
    SILENCE_SECONDS,
    AnswerFailed,
    AskedNode,
    NodeAnswer,
    TellingNode,
    unanswered,
)
from routelog.vhosts.sessions.session_message import (
    FAILED,
    MORE,
    OUTBOX_BYTES_MAX,
    BadSessionMessage,
    Kind,
    SessionMessage,
)


class Pair:
    """Both ends of a session, whose messages go over when the test says so.

    Attributes:
        made: pieces that the front has made.
        ended: questions whose answer has ended, in whatever way.
    """

    def __init__(self) -> None:
        self.turns = Turns()
        self.outbox = 0
        self.to_front: deque[SessionMessage] = deque()
        self.to_leader: deque[SessionMessage] = deque()
        self.made: list[bytes] = []
        self.ended: list[bytes] = []
        self.answer: Callable[[bytes], AsyncGenerator[bytes, None]] = self.three
        self.leader = AskedNode(self.to_front.append, lambda: self.outbox, self.turns.call_later)
        self.front = TellingNode(self.to_leader.append, lambda question: self.answer(question))

    async def three(self, question: bytes) -> AsyncGenerator[bytes, None]:
        """An answer of three pieces."""
        try:
            for at in range(3):
                self.made.append(question + b"%d" % at)
                yield self.made[-1]
        finally:
            self.ended.append(question)

    async def carry(self) -> None:
        """All messages go over, until nobody sends more."""
        while True:
            for _ in range(5):
                await asyncio.sleep(0)
            if self.to_front:
                self.front.asked(self.to_front.popleft())
            elif self.to_leader:
                self.leader.told(self.to_leader.popleft())
            else:
                return


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = Pair()
    yield pair
    pair.front.closed()
    await asyncio.sleep(0)


async def test_an_answer_comes_piece_by_piece(pair: Pair) -> None:
    answer = pair.leader.ask(b"q")
    await pair.carry()
    assert answer.result() == NodeAnswer([b"q0", b"q1", b"q2"])
    assert pair.ended == [b"q"]


async def test_a_front_is_not_ahead_of_its_reader_by_more_than_a_piece(pair: Pair) -> None:
    pair.leader.ask(b"q")
    pair.front.asked(pair.to_front.popleft())
    for _ in range(20):
        await asyncio.sleep(0)
    assert [message.content for message in pair.to_leader] == [b"q0"]
    assert pair.made == [b"q0", b"q1"]  # which says that there is more


async def test_answers_to_several_questions_come_side_by_side(pair: Pair) -> None:
    answers = [pair.leader.ask(question) for question in (b"p", b"q")]
    await pair.carry()
    pieces = [answer.result().pieces for answer in answers]
    assert pieces == [[b"p0", b"p1", b"p2"], [b"q0", b"q1", b"q2"]]


async def test_an_answer_without_content_is_one(pair: Pair) -> None:
    async def nothing(question: bytes) -> AsyncGenerator[bytes, None]:
        for _ in ():
            yield b""

    pair.answer = nothing
    answer = pair.leader.ask(b"q")
    await pair.carry()
    assert answer.result() == NodeAnswer([b""])


async def test_a_silent_front_is_given_up_and_ends_its_answer(pair: Pair) -> None:
    answer = pair.leader.ask(b"q")
    pair.front.asked(pair.to_front.popleft())
    await asyncio.sleep(0)
    pair.turns.pass_seconds(SILENCE_SECONDS - 0.1)
    assert not answer.done()
    pair.turns.pass_seconds(0.2)
    assert answer.result() is None
    late = pair.to_leader.popleft() if pair.to_leader else None
    await pair.carry()
    assert pair.ended == [b"q"]
    if late is not None:
        pair.leader.told(late)
    assert not pair.to_front


async def test_each_piece_has_its_time(pair: Pair) -> None:
    answer = pair.leader.ask(b"q")
    for _ in range(3):
        pair.turns.pass_seconds(SILENCE_SECONDS - 0.1)
        while pair.to_front:
            pair.front.asked(pair.to_front.popleft())
        for _ in range(5):
            await asyncio.sleep(0)
        pair.leader.told(pair.to_leader.popleft())
    assert answer.result() is not None


@pytest.mark.parametrize("content", [b"", b"why"])
async def test_a_failure_is_told_with_its_reason(pair: Pair, content: bytes) -> None:
    async def failing(question: bytes) -> AsyncGenerator[bytes, None]:
        yield b"piece"
        yield b"piece"
        raise AnswerFailed(content)

    pair.answer = failing
    answer = pair.leader.ask(b"q")
    await pair.carry()
    assert answer.result() == NodeAnswer([b"piece", content], has_failed=True)


async def test_a_fault_is_in_the_log_of_the_front_and_the_leader_need_not_wait(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(question: bytes) -> AsyncGenerator[bytes, None]:
        raise ZeroDivisionError
        yield b""

    for answer in (broken, unanswered):
        pair.answer = answer
        told = pair.leader.ask(b"q")
        await pair.carry()
        assert told.result() == NodeAnswer([b""], has_failed=True)
    assert caplog.text.count("is not answered") == 1


async def test_the_end_of_a_session_answers_all(pair: Pair) -> None:
    answers = [pair.leader.ask(b"q") for _ in range(3)]
    pair.front.asked(pair.to_front.popleft())
    await asyncio.sleep(0)
    pair.leader.closed()
    assert [answer.result() for answer in answers] == [None] * 3
    pair.front.closed()
    for _ in range(5):
        await asyncio.sleep(0)
    assert pair.ended == [b"q"]


async def test_a_front_that_does_not_read_is_not_asked(pair: Pair) -> None:
    pair.outbox = OUTBOX_BYTES_MAX + 1
    assert pair.leader.ask(b"q").result() is None
    assert not pair.to_front


async def test_so_many_questions_are_asked_at_a_time(pair: Pair) -> None:
    answers = [pair.leader.ask(b"q") for _ in range(QUESTIONS_MAX)]
    assert pair.leader.ask(b"q").result() is None
    await pair.carry()
    assert all(answer.result() is not None for answer in answers)


async def test_new_questions_may_come_at_once_behind_those_that_were_given_up(pair: Pair) -> None:
    for _ in range(QUESTIONS_MAX):
        pair.leader.ask(b"old")
    while pair.to_front:
        pair.front.asked(pair.to_front.popleft())
    pair.turns.pass_seconds(SILENCE_SECONDS + 0.1)
    for _ in range(QUESTIONS_MAX):
        pair.leader.ask(b"new")
    while pair.to_front:  # in one turn
        pair.front.asked(pair.to_front.popleft())
    await pair.carry()
    assert pair.ended.count(b"new") == QUESTIONS_MAX


async def test_who_waits_may_go(pair: Pair) -> None:
    answer = pair.leader.ask(b"q")
    answer.cancel()
    await pair.carry()
    assert pair.ended == [b"q"]
    assert pair.made == [b"q0", b"q1"]


async def test_who_tells_or_asks_what_cannot_be_is_at_fault(pair: Pair) -> None:
    def message(kind: Kind, **fields: Any) -> SessionMessage:
        return SessionMessage(kind, **fields)

    for number in (0, 1):
        with pytest.raises(BadSessionMessage, match=r"TOLD"):
            pair.leader.told(message(Kind.TOLD, number=number, content=b"x", flags=MORE | FAILED))
    with pytest.raises(BadSessionMessage, match=r"not answered"):
        pair.front.asked(message(Kind.ASK, number=7))
    for number in range(QUESTIONS_MAX):
        pair.front.asked(message(Kind.ASK, number=number, content=b"q"))
    for number in (3, QUESTIONS_MAX):
        with pytest.raises(BadSessionMessage, match=r"beside 64"):
            pair.front.asked(message(Kind.ASK, number=number, content=b"q"))
