"""Questions of a leader about the clients of a front, and the answers, one piece at a time::

     leader                               front
       │ ─── ASK 7: question ────────────►  │  begins to answer
       │ ◄── TOLD 7, MORE: a piece ───────  │
       │ ─── ASK 7 ──────────────────────►  │  makes the next one
       │ ◄── TOLD 7: the last piece ──────  │

So neither end has more than one piece of an answer on the way. What questions and pieces say is known to those
who ask and answer.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from routelog.log_backend import CallLater, Octets, Timer
from routelog.vhosts.sessions.session_message import (
    FAILED,
    GIVEN_UP,
    MORE,
    OUTBOX_BYTES_MAX,
    BadSessionMessage,
    Kind,
    SessionMessage,
)

log = logging.getLogger(__name__)

SILENCE_SECONDS = 2.0  # of a front, for which operators wait: as long as its lease
QUESTIONS_MAX = 64  # of a front at a time: each is a request of an operator
PIECE_BYTES = 256 * 1024  # about, of an answer: 1 ms to make and to read
ANSWER_BYTES_MAX = 256 * 1024 * 1024  # of all pieces: 200,000 connections

Send = Callable[[SessionMessage], object]


class AnswerFailed(Exception):
    """A question has no answer.

    Attributes:
        content: why, as who has asked reads it.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.content = content


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What a node has answered.

    Attributes:
        has_failed: the last piece says why there is no answer; empty: that is not known.
    """

    pieces: list[Octets]
    has_failed: bool = False


# Answers a question, in pieces; it may raise AnswerFailed.
AnswerPieces = Callable[[bytes], AsyncGenerator[bytes, None]]


async def unanswered(question: bytes) -> AsyncGenerator[bytes, None]:
    """Answer nothing: see `AnswerPieces`."""
    raise AnswerFailed(b"")
    yield b""


@dataclass(slots=True)
class _Asked:
    answer: "asyncio.Future[NodeAnswer | None]"
    timer: Timer
    pieces: list[Octets] = field(default_factory=list)
    size: int = 0


class AskedNode:
    """The leader's end, of one session.

    Args:
        outbox_bytes: how much the session has not sent: while it is much, the front is asked nothing.
    """

    def __init__(self, send: Send, outbox_bytes: Callable[[], int], call_later: CallLater) -> None:
        self._send = send
        self._outbox_bytes = outbox_bytes
        self._call_later = call_later
        self._last = 0
        self._asked: dict[int, _Asked] = {}

    def ask(self, question: bytes) -> "asyncio.Future[NodeAnswer | None]":
        """Ask the front.

        Returns:
            Its answer; None: it is silent, or its session ends.
        """
        answer: asyncio.Future[NodeAnswer | None] = asyncio.get_running_loop().create_future()
        if len(self._asked) >= QUESTIONS_MAX or self._outbox_bytes() > OUTBOX_BYTES_MAX:
            answer.set_result(None)
            return answer
        self._last = number = self._last + 1
        self._asked[number] = _Asked(answer, self._timer(number))
        self._send(SessionMessage(Kind.ASK, number=number, content=question))
        return answer

    def told(self, message: SessionMessage) -> None:
        """Take a piece of an answer, that nobody may wait for any more.

        Raises:
            BadSessionMessage: nothing like it was asked.
        """
        number = message.number
        if not 0 < number <= self._last:
            raise BadSessionMessage(f"TOLD {number} of {self._last}")
        asked = self._asked.get(number)
        if asked is None:
            return
        asked.timer.cancel()
        asked.pieces.append(message.content)
        asked.size += len(message.content)
        if not message.flags & MORE:
            self._end(number, NodeAnswer(asked.pieces, bool(message.flags & FAILED)))
        elif asked.size > ANSWER_BYTES_MAX or asked.answer.done():
            self._give_up(number)
        else:
            asked.timer = self._timer(number)
            self._send(SessionMessage(Kind.ASK, number=number))

    def closed(self) -> None:
        """The session has ended."""
        for number in [*self._asked]:
            self._end(number, None)

    def _timer(self, number: int) -> Timer:
        return self._call_later(SILENCE_SECONDS, partial(self._give_up, number))

    def _give_up(self, number: int) -> None:
        self._send(SessionMessage(Kind.ASK, GIVEN_UP, number=number))
        self._end(number, None)

    def _end(self, number: int, answer: NodeAnswer | None) -> None:
        asked = self._asked.pop(number)
        asked.timer.cancel()
        if not asked.answer.done():  # who waited may have gone
            asked.answer.set_result(answer)


@dataclass(slots=True)
class _Answering:
    task: "asyncio.Task[None]"
    wanted: asyncio.Event = field(default_factory=asyncio.Event)  # the next piece


class TellingNode:
    """The front's end, of one session.

    Args:
        answer: answers a question.
    """

    def __init__(self, send: Send, answer: AnswerPieces) -> None:
        self._send = send
        self._answer = answer
        self._answering: dict[int, _Answering] = {}

    def asked(self, message: SessionMessage) -> None:
        """Take a question, or go on with one.

        Raises:
            BadSessionMessage: there are too many, or none like it.
        """
        number = message.number
        answering = self._answering.get(number)
        if message.flags & GIVEN_UP:
            if answering is not None:
                del self._answering[number]
                answering.task.cancel()
        elif not message.content:
            if answering is None:
                raise BadSessionMessage(f"ASK {number} for more, which is not answered")
            answering.wanted.set()
        elif answering is not None or len(self._answering) >= QUESTIONS_MAX:
            raise BadSessionMessage(f"ASK {number}, beside {len(self._answering)} questions")
        else:
            task = asyncio.ensure_future(self._tell(number, bytes(message.content)))
            self._answering[number] = _Answering(task)
            task.add_done_callback(lambda _: self._answering.pop(number, None))

    def closed(self) -> None:
        """The session has ended: nobody waits for answers."""
        for answering in self._answering.values():
            answering.task.cancel()

    async def _tell(self, number: int, question: bytes) -> None:
        try:
            last = b""
            async with aclosing(self._answer(question)) as pieces:
                async for piece in pieces:
                    if last:
                        await self._tell_more(number, last)
                    last = piece
            self._send(SessionMessage(Kind.TOLD, number=number, content=last))
        except AnswerFailed as error:
            self._send(SessionMessage(Kind.TOLD, FAILED, number=number, content=error.content))
        except Exception:  # a fault of ours: the leader need not wait
            log.exception("a question of the leader is not answered")
            self._send(SessionMessage(Kind.TOLD, FAILED, number=number))

    async def _tell_more(self, number: int, piece: bytes) -> None:
        wanted = self._answering[number].wanted
        wanted.clear()
        self._send(SessionMessage(Kind.TOLD, MORE, number=number, content=piece))
        await wanted.wait()
