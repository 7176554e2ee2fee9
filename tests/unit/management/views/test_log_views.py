"""Logs and their readers over HTTP."""

import pytest
from support.queue_samples import records
from unit.log_backend.open_store import flushed
from unit.management.managed_node import ManagedNode

from routelog.management.calls.answer import Stored
from routelog.management.calls.failures import Refused
from routelog.management.views import log_readers, log_views
from routelog.vhosts import AccessRefused, InvalidConsumerArgument, Queue

OF_MINE = {"queue": "mine", "partition": "0"}


@pytest.fixture
async def stored(node: ManagedNode) -> Queue:
    """Stream "mine" with five messages in a segment."""
    queue = await node.queue("mine", x_queue_type="stream")
    queue.publish(records(*"abcde"), True)
    await flushed(node.node.logs)
    return queue


async def test_what_is_stored_is_told(node: ManagedNode, stored: Queue) -> None:
    row = await node.ask(log_views.get_log, **OF_MINE)
    assert (row["first_offset"], row["end_offset"], row["next_offset"]) == (0, 5, 5)
    assert [extent[:2] for extent in row["segments"]] == [[0, 5]]
    assert row["remote"] is None
    assert await node.ask(log_views.get_offset, **OF_MINE, query="time=0") == {"offset": 0}
    assert await node.ask(log_views.get_offset, **OF_MINE, query=f"time={2**62}") == {
        "offset": None
    }
    sizes = await node.ask(log_views.get_body_sizes, **OF_MINE, query="start=0&end=5&bytes=100")
    assert sizes == [[0, 5, 5]]


async def test_batches_are_given_as_they_are_stored(node: ManagedNode, stored: Queue) -> None:
    answer = await log_views.get_records(node.call(**OF_MINE, query="start=2&end=4"))
    assert isinstance(answer, Stored)
    assert (answer.stretch.start, answer.stretch.end) == (2, 4)
    answer.stretch.close()
    with pytest.raises(Refused, match="offsets from 7 to 8 are not in the log"):
        await node.ask(log_views.get_records, **OF_MINE, query="start=7&end=9")


@pytest.mark.parametrize(
    "query", ["", "start=1", "start=1&end=1", "start=-1&end=2", f"start=0&end={'1' * 21}"]
)
async def test_a_range_is_two_numbers(node: ManagedNode, stored: Queue, query: str) -> None:
    with pytest.raises(Refused) as raised:
        await node.ask(log_views.get_records, **OF_MINE, query=query)
    assert raised.value.status == 400


async def test_what_is_damaged_is_not_given(node: ManagedNode, stored: Queue) -> None:
    stored.partitions[0].log.blocked_from = 2
    for handler in (log_views.get_records, log_views.get_body_sizes):
        with pytest.raises(Refused, match="is damaged at offset 3") as raised:
            await node.ask(handler, **OF_MINE, query="start=3&end=5&bytes=1")
        assert raised.value.status == 409


@pytest.mark.parametrize(
    "change", [{"queue": "nothing"}, {"partition": "1"}, {"partition": "x"}, {"partition": "0" * 5}]
)
async def test_a_log_that_is_not_there_is_not_found(
    node: ManagedNode, stored: Queue, change: dict[str, str]
) -> None:
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(log_views.get_log, **{**OF_MINE, **change})


async def test_logs_are_shown_to_those_who_may_read_them(node: ManagedNode, stored: Queue) -> None:
    await node.queue("other", x_queue_type="stream")
    user = await node.user("u")
    row = {"queue": "mine", "partitions": 1}
    assert await node.ask(log_views.list_vhosts_with_logs, user) == ["/"]
    assert await node.ask(log_views.list_vhosts_with_logs, node.caller("stranger")) == []
    assert await node.ask(log_views.list_logs, user) == [row]
    assert await node.ask(log_views.list_logs, user, query='queues=["mine","nothing"]') == [row]
    with pytest.raises(AccessRefused):
        await node.ask(log_views.list_logs, user, query='queues=["other"]')
    for query in ("queues=mine", 'queues="mine"', "queues=[1]"):
        with pytest.raises(Refused, match="expected JSON"):
            await node.ask(log_views.list_logs, user, query=query)


async def test_a_token_is_given_to_users_only(node: ManagedNode) -> None:
    user = await node.user("u")
    answer = await node.ask(log_views.post_token, user, body={"seconds": 60})
    found = node.tokens.verified(answer["token"], node.users)
    assert found is not None
    assert (found[0].name, found[1]) == ("u", "/")
    for caller in (node.admin, node.caller("deleted")):
        with pytest.raises(Refused, match="user's password"):
            await node.ask(log_views.post_token, caller, body={})
    for seconds in (0, -1, 10**9):
        with pytest.raises(Refused, match="seconds: expected"):
            await node.ask(log_views.post_token, user, body={"seconds": seconds})


# Readers


async def test_a_reader_tells_how_far_it_is_and_is_forgotten(
    node: ManagedNode, stored: Queue
) -> None:
    reader = {"queue": "mine", "name": "lake"}
    body = {"offsets": {"0": 3}, "hold_bytes": 7}
    assert await node.ask(log_readers.put_reader, **reader, body=body) == 204
    (row,) = await node.ask(log_readers.list_readers, queue="mine")
    assert (row["name"], row["consumers"], row["hold_bytes"]) == ("lake", 0, 7)
    (place,) = row["partitions"]
    assert (place["next_offset"], place["messages_ready"]) == (3, 2)
    assert await node.ask(log_readers.put_reader, **reader, body={"offsets": {"0": 1}}) == 204
    (row,) = await node.ask(log_readers.list_readers, queue="mine")
    assert row["partitions"][0]["next_offset"] == 3  # forwards only
    for to, offset in ((1, 1), ("4", 4), ("first", 0), ("1970-01-01T00:00:00", 0), ("next", 5)):
        assert await node.ask(log_readers.move_reader, **reader, body={"to": to}) == 204
        (row,) = await node.ask(log_readers.list_readers, queue="mine")
        assert (to, row["partitions"][0]["next_offset"]) == (to, offset)
    assert await node.ask(log_readers.delete_reader, **reader) == 204
    assert await node.ask(log_readers.list_readers, queue="mine") == []
    for handler in (log_readers.delete_reader, log_readers.move_reader):
        with pytest.raises(Refused, match=r"^no "):
            await node.ask(handler, **reader, body={"to": 1})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"offsets": {"1": 0}}, "has no partition 1"),
        ({"offsets": {"-1": 0}}, "has no partition -1"),
        ({"offsets": {"0": 6}}, "has not reached offset 6"),
        ({"offsets": {"0": -1}}, "has not reached offset -1"),
        ({"hold_bytes": 10_001}, "expected 0 to 10000"),
        ({"hold_bytes": -1}, "expected 0 to 10000"),
        ({"offsets": 1}, "object"),
    ],
)
async def test_what_no_reader_can_have_read_is_refused(
    node: ManagedNode, stored: Queue, change: dict[str, object], reason: str
) -> None:
    body = {"offsets": {"0": 1}, **change}
    with pytest.raises(Refused, match=reason):
        await node.ask(log_readers.put_reader, queue="mine", name="lake", body=body)
    assert await node.ask(log_readers.list_readers, queue="mine") == []


async def test_readers_need_a_queue_that_they_may_read(node: ManagedNode, stored: Queue) -> None:
    await node.queue("other", x_queue_type="stream")
    with pytest.raises(AccessRefused):
        await node.ask(log_readers.list_readers, await node.user("u"), queue="other")
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(log_readers.list_readers, queue="nothing")
    body = {"offsets": {}, "expires": "soon"}
    with pytest.raises(InvalidConsumerArgument):
        await node.ask(log_readers.put_reader, queue="mine", name="lake", body=body)


async def test_a_move_can_be_tried_first(node: ManagedNode, stored: Queue) -> None:
    reader = {"queue": "mine", "name": "lake"}
    await node.ask(log_readers.put_reader, **reader, body={"offsets": {"0": 3}})
    for to, skipped, repeated in (("next", 2, 0), (1, 0, 2), (3, 0, 0), (4, 1, 0), ("first", 0, 3)):
        body = {"to": to, "dry_run": True}
        move = await node.ask(log_readers.move_reader, **reader, body=body)
        assert (to, move["skipped"], move["repeated"]) == (to, skipped, repeated)
        (row,) = await node.ask(log_readers.list_readers, queue="mine")
        assert row["partitions"][0]["next_offset"] == 3
