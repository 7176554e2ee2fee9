"""Whatever a leader sends, a front takes it, or ends the session."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.queue_samples import numbered, records
from support.sampling import examples
from support.waiting import WAIT_SECONDS
from unit.vhosts.sessions.session_pipe import RemoteTaker, ScriptedLeader, call_of

from routelog.vhosts import ConsumeOptions
from routelog.vhosts.errors import OutcomePending, QueueQuarantined, SessionLost
from routelog.vhosts.sessions.session_errors import encode_error
from routelog.vhosts.sessions.session_message import (
    FAILED,
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


@pytest.mark.parametrize("flags", [0, FAILED], ids=["value", "error"])
@pytest.mark.parametrize("method", ["get", "purge", "counts", "consume"])
async def test_who_is_answered_what_is_none_hears_that_the_session_ends(
    method: str, flags: int
) -> None:
    leader = ScriptedLeader()
    session, reader = leader.open(), RemoteTaker(10)
    queue = leader.queue(7, queue_type="stream")
    asked: asyncio.Future[object]
    if method == "consume":
        asked = queue.attach(reader, ConsumeOptions(place="first"), reader.begin)  # type: ignore[assignment]
    else:
        asked = getattr(queue, method)()
    call = leader.said()[-1]
    content = msgspec.msgpack.encode(["none"])
    with pytest.raises(BadSessionMessage):
        leader.says(Kind.ANSWER, content, flags=flags, number=call.number)
    session.lost("it is hostile")
    with pytest.raises(SessionLost):
        await asyncio.wait_for(asked, WAIT_SECONDS)


async def test_a_consumer_that_ends_for_no_reason_begins_again_in_the_next_session() -> None:
    leader = ScriptedLeader()
    session, taker = leader.open(), RemoteTaker()
    queue = leader.queue()
    queue.attach(taker, ConsumeOptions(), taker.begin)
    consume = leader.said()[-1]
    subject = call_of(consume)[1]["consumer"]
    leader.answers(consume, None)
    with pytest.raises(BadSessionMessage, match="an error that is none"):
        leader.says(Kind.ENDED, msgspec.msgpack.encode(["none"]), subject=subject)
    session.lost("it is hostile")
    leader.open()
    assert "consume" in [call_of(each)[0] for each in leader.said() if each.kind is Kind.CALL]


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
    session.lost("the test is over")
    leader.link.end("the test is over")
    for each in waiting:  # nobody waits for ever
        assert each.done()
        each.exception()
