"""Whatever a leader sends, a front takes it, or ends the session."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.queue_samples import numbered, records
from support.sampling import examples
from unit.vhosts.sessions.session_pipe import RemoteTaker, ScriptedLeader

from routelog.vhosts import ConsumeOptions
from routelog.vhosts.errors import OutcomePending, QueueQuarantined
from routelog.vhosts.sessions.session_errors import encode_error
from routelog.vhosts.sessions.session_message import (
    BadSessionMessage,
    Kind,
    SessionMessage,
    batch_pieces,
)

BATCH = b"".join(batch_pieces(SessionMessage(Kind.DELIVER), records(*numbered(0, 2)))[2:])
PACKED = [
    msgspec.msgpack.encode(value)
    for value in (
        None,
        5,
        -1,
        [],
        [0],
        [1, 2],
        ["disk"],
        {"ready": 1, "partition": -1, "offset": 1 << 63, "count": 0, "batch": BATCH},
        {"ready": 1, "partition": 0, "offset": 1, "redelivered": True, "count": 0, "batch": BATCH},
        ["Exception", "text", {}],
        ["QueueNotFound", "text", {"args": 5}],
    )
]
CONTENT = st.sampled_from(
    [
        b"",
        BATCH,
        b"\1\0\0\0" * 2 + BATCH,
        b"\0\0\0\0",
        encode_error(QueueQuarantined("q", "/", 1)),
        *PACKED,
    ]
)
NUMBER = st.sampled_from([0, 1, 2, 3, 4, 5, (1 << 63) - 2, (1 << 63), (1 << 64) - 1])
MESSAGE = st.builds(
    SessionMessage,
    st.sampled_from(list(Kind)),
    flags=st.integers(0, 3),
    partition=st.integers(0, 2),
    subject=st.integers(0, 5),
    number=NUMBER,
    first=NUMBER,
    count=st.sampled_from([0, 1, 2, (1 << 64) - 1]),
    content=CONTENT,
)


@given(st.lists(MESSAGE, max_size=12))
@settings(max_examples=examples(600), deadline=None)
def test_what_comes_is_taken_or_refused(messages: list[SessionMessage]) -> None:
    asyncio.run(_taken(messages))


async def _taken(messages: list[SessionMessage]) -> None:
    leader = ScriptedLeader()
    session = leader.open()
    queue, stream = leader.queue(), leader.queue(8, queue_type="stream")
    refusing = leader.queue(9, max_length=1, overflow="reject-publish")
    taker, reader = RemoteTaker(), RemoteTaker(10)
    waiting: list[asyncio.Future[object]] = [
        queue.attach(taker, ConsumeOptions(), taker.begin),  # type: ignore[list-item]
        stream.attach(reader, ConsumeOptions(place="first"), reader.begin),  # type: ignore[list-item]
        queue.get(),  # type: ignore[list-item]
        queue.purge(),  # type: ignore[list-item]
        queue.counts(),  # type: ignore[list-item]
    ]
    queue.publish(records("a"), True)
    with pytest.raises(OutcomePending):
        refusing.publish(records("a", "b"), True)
    try:
        for message in messages:
            session.received(message)
            leader.turns.run()
    except BadSessionMessage:
        session.lost("it is hostile")
    leader.turns.run()
    for each in waiting:
        if each.done():
            each.exception()
