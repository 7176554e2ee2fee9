"""Messages as a front may send them, and some that are nearly so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
from support.queue_samples import records
from unit.vhosts.sessions.hand_front import ACTOR, consume_call

from routelog.vhosts import Queue, encoded_arguments
from routelog.vhosts.sessions.session_message import (
    MORE,
    Kind,
    SessionMessage,
    batch_pieces,
    message_pieces,
)

MESSAGES = 12  # of each of two queues; the honest consumer has the first half of one
CALLS: list[tuple[str, list[Any]]] = [
    ("get", [False]),
    ("get", [True]),
    ("purge", []),
    ("counts", []),
    ("cancel", [3]),
    ("detach", [[3, 4]]),
    ("lapsed", [4, 2]),
    ("stand_aside", [4]),
    ("redeliver", [{"consumer": 3, "partition": 0, "first": 6, "end": 8}]),
    ("consume", [consume_call(consumer=5, no_ack=True)]),
    ("consume", [consume_call(consumer=6, place="first", prefetch=3)]),
    ("consume", [consume_call(consumer=7, group=["g", None, None], place="first", prefetch=3)]),
    ("consume", [consume_call(consumer=8, filter={"x-filter": "TRUE"}, place=0)]),
    ("consume", [consume_call(consumer=9, exclusive=True)]),
    ("consume", [consume_call(consumer=3, prefetch=2, lapsed=1)]),
    ("consume", [consume_call(consumer=4, place="first", filter={"x-filter": "what is"})]),
]
QUEUE_CALL = {
    "name": "mine",
    "durable": False,
    "exclusive": True,
    "auto_delete": False,
    "arguments": encoded_arguments({"x-max-length": 3}),
    "server_named": False,
}
DEFINITIONS: list[list[Any]] = [
    ["declare_queue", "/", ACTOR, 1, QUEUE_CALL],
    ["delete_queue", "/", ACTOR, 1, {"name": "mine", "if_unused": False, "if_empty": False}],
    ["connection_closed", "/", 1],
    ["exchange_declared", "/", ACTOR, 1, {"name": "amq.topic"}],
]


def honest(queues: tuple[Queue, Queue], chance: random.Random) -> Iterator[list[Any]]:
    """Pieces of messages as a front may send them, and some that are nearly so."""
    for subject, queue in enumerate(queues, 1):
        content = msgspec.msgpack.encode(["/", queue.name])
        yield message_pieces(
            SessionMessage(Kind.QUEUE, subject=subject, number=queue.number, content=content)
        )
    for consumer, subject in ((3, 1), (4, 2)):
        yield call(subject, "consume", [consume_call(consumer=consumer, prefetch=4)])
    for number in range(1, 40):
        kind = chance.choice([Kind.PUBLISH, Kind.SETTLE, Kind.RETURN, Kind.CALL, Kind.CREDIT])
        subject = chance.choice([1, 2])
        source = chance.choice([1, 2, 3, 4, 4, 3])
        first = chance.choice([0, 0, MESSAGES // 2, chance.randrange(MESSAGES)])
        if kind is Kind.PUBLISH:
            head = SessionMessage(kind, subject=subject, number=number)
            yield batch_pieces(head, records("fuzz", persistent=False))
        elif kind is Kind.CALL:
            if chance.random() < 0.2:
                yield call(0, chance.choice(DEFINITIONS)[0], chance.choice(DEFINITIONS)[1:])
            else:
                yield call(subject, *chance.choice(CALLS))
        else:
            flags = chance.choice([1, 2, 3, 1 | MORE, 2 | MORE])
            count = chance.choice([0, 1, 1, 2, 4])
            yield message_pieces(SessionMessage(kind, flags, 0, source, first=first, count=count))


def call(subject: int, method: str, arguments: list[Any]) -> list[Any]:
    """Pieces of a call."""
    content = msgspec.msgpack.encode([method, *arguments])
    return message_pieces(SessionMessage(Kind.CALL, 0, 0, subject, 1, content=content))
