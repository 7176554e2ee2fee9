"""Messages of a queue over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from support.queue_samples import declare_queue, records
from unit.management.managed_node import ManagedNode

from routelog.management.calls.failures import Refused
from routelog.management.views import messages
from routelog.vhosts import AccessRefused, MoveMode, QueueProperties


@pytest.fixture
def queue(node: ManagedNode) -> str:
    properties = QueueProperties("mine", durable=False, arguments={"x-partitions": 2})
    made = declare_queue(node.vhost, properties, object())[0]
    for number, partition in enumerate(made.partitions):
        partition.log.append(records(f"a{number}", f"b{number}"))
    return made.name


async def browsed(node: ManagedNode, queue: str, **asked: object) -> tuple[list[str], object]:
    page = await node.ask(messages.browse_messages, name=queue, query=urlencode(asked))
    assert page["end"] == "0:2,1:2"
    return [row["payload"] for row in page["items"]], page["next"]


async def test_pages_and_places(node: ManagedNode, queue: str) -> None:
    assert await browsed(node, queue) == (["a0", "b0", "a1", "b1"], None)
    assert await browsed(node, queue, count=3) == (["a0", "b0", "a1"], "1:1")
    assert await browsed(node, queue, offset="1:1") == (["b1"], None)
    assert await browsed(node, queue, offset="0:0-1,1:0-1") == (["a0", "a1"], None)
    assert await browsed(node, queue, offset=1) == (["b0", "b1"], None)
    assert await browsed(node, queue, partition=1, text="b") == (["b1"], None)
    assert await browsed(node, queue, state="settled") == ([], None)
    assert (await browsed(node, queue, encoding="base64", count=1))[0] == ["YTA="]


async def test_it_takes_the_permission_to_read(node: ManagedNode, queue: str) -> None:
    user = await node.user("u", "management")
    page = await node.ask(messages.browse_messages, user, name=queue)
    assert len(page["items"]) == 4
    await node.queue("theirs")
    with pytest.raises(AccessRefused):
        await node.ask(messages.browse_messages, user, name="theirs")
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(messages.browse_messages, user, name="missing")


async def test_orders_say_what_goes_where(node: ManagedNode, queue: str) -> None:
    await node.queue("to")
    body = {"messages": ["1:1", "0:0", "1:0"], "to": {"queue": "to"}}
    moved = await node.ask(messages.move_messages, name=queue, body=body)
    assert (moved["count"], moved["next"], moved["dry_run"]) == (3, None, False)
    places = [(each["partition"], each["offset"]) for each in moved["sample"]]
    assert places == [(0, 0), (1, 0), (1, 1)]
    assert (
        moved["sample"][0] | {"to": ["to"], "exchange": "", "routing_key": "k"}
        == (moved["sample"][0])
    )
    body = {"mode": "delete", "filter": {"text": "b"}, "limit": 7, "dry_run": True}
    await node.ask(messages.move_messages, name=queue, body=body)
    to = {"exchange": "amq.default", "routing_key": "to"}
    replayed = await node.ask(messages.replay_messages, name=queue, body={"to": to})
    assert (replayed["count"], replayed["sample"][0]["routing_key"]) == (4, "to")
    assert [(each.mode, each.limit, each.is_dry_run) for each in node.messages.orders] == [
        (MoveMode.MOVE, 10_000, False),
        (MoveMode.DELETE, 7, True),
        (MoveMode.COPY, 10_000, False),
    ]


async def test_who_moves_must_be_allowed_to_publish(node: ManagedNode, queue: str) -> None:
    user = await node.user("u", "management")
    await node.queue("mine.too")
    body = {"filter": {}, "to": {"queue": "mine.too"}}
    with pytest.raises(AccessRefused, match=r"amq\.default"):
        await node.ask(messages.move_messages, user, name=queue, body=body)


async def test_a_routing_key_must_fit_into_a_frame(node: ManagedNode, queue: str) -> None:
    to = {"exchange": "amq.fanout", "routing_key": "\u00e9" * 128}
    with pytest.raises(Refused, match="longer than 255 bytes"):
        await node.ask(messages.move_messages, name=queue, body={"filter": {}, "to": to})


async def test_what_comes_during_a_look_is_not_shown_again(
    node: ManagedNode, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, browse = node.vhost.queues[queue].partitions[0], node.messages.browse

    async def busy(*asked: Any) -> Any:
        partition.log.append(records("late"))
        return await browse(*asked)

    monkeypatch.setattr(node.messages, "browse", busy)
    page = await node.ask(messages.browse_messages, name=queue)
    assert [row["payload"] for row in page["items"]] == ["a0", "b0", "late", "a1", "b1"]
    assert (page["next"], page["end"]) == (None, "0:3,1:2")


async def test_a_purge_during_a_restore_is_the_last_one(
    node: ManagedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = QueueProperties("kept", arguments={"x-retention": "1D"})
    queue, move = declare_queue(node.vhost, properties, object())[0], node.messages.move
    (partition,) = queue.partitions
    partition.log.append(records("a", "b"))
    queue.purge()

    async def purged_meanwhile(*asked: Any) -> Any:
        partition.log.append(records("c"))
        queue.purge()
        return await move(*asked)

    monkeypatch.setattr(node.messages, "move", purged_meanwhile)
    assert (await node.ask(messages.restore_messages, name="kept", body={}))["count"] == 2
    monkeypatch.undo()
    restored = await node.ask(messages.restore_messages, name="kept", body={})
    assert [each["offset"] for each in restored["sample"]] == [2]
