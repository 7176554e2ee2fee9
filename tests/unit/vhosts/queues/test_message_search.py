"""A search finds messages in every state, and changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from support.message_samples import batch, message
from support.queue_samples import (
    Node,
    Taker,
    declare_queue,
    fill,
    give_back,
    records,
    running_node,
    settle,
)

from routelog.vhosts import (
    MessageFilter,
    MessageSearch,
    MessageState,
    Place,
    Queue,
    QueueProperties,
)
from routelog.vhosts.filters.sql import parsed_sql
from routelog.vhosts.queues import message_search

ALL = frozenset(MessageState)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as running:
        yield running


@pytest.fixture
def queue(node: Node) -> Queue:
    return declare_queue(node.vhost, QueueProperties("q", durable=False), object())[0]


async def found(
    queue: Queue, wanted: MessageFilter, places: Iterable[Place] = (Place(0, 0),)
) -> tuple[dict[str, str], MessageSearch]:
    """Bodies and states, and the search."""
    search = MessageSearch(queue, wanted, places)
    return {
        each.records.body(each.index).decode(): str(each.state) async for each in search.found()
    }, search


@pytest.mark.parametrize("priorities", [None, 5])
async def test_each_state_is_told_and_none_is_changed(node: Node, priorities: int | None) -> None:
    arguments = {} if priorities is None else {"x-max-priority": priorities}
    properties = QueueProperties("p", durable=False, arguments=arguments)
    queue = declare_queue(node.vhost, properties, object())[0]
    fill(queue, 10, 5)
    taker = Taker(prefetch=4)
    queue.add_consumer(taker)
    node.turns.run()
    first, *others = list(taker.take())
    assert first.count == 4
    assert not others
    queue.detach([taker])
    first.partition.settle(1, 2)
    first.partition.give_back(2, 3)
    before = queue.ready, queue.unacked
    states, search = await found(queue, MessageFilter(ALL))
    assert states == {
        "m0": "unacked",
        "m1": "settled",
        "m2": "ready",
        "m3": "unacked",
        **{f"m{at}": "ready" for at in range(4, 10)},
    }
    assert (list(search.places), search.looked_at, search.unreadable) == ([], 10, [])
    assert (queue.ready, queue.unacked) == before
    unsettled, _ = await found(queue, MessageFilter())
    assert unsettled == {body: state for body, state in states.items() if body != "m1"}
    settled, _ = await found(queue, MessageFilter(frozenset((MessageState.SETTLED,))))
    assert settled == {"m1": "settled"}


async def test_what_was_looked_at_is_delivered_as_if_nobody_had(node: Node, queue: Queue) -> None:
    fill(queue, 5)
    await found(queue, MessageFilter(ALL))
    taker = Taker()
    queue.add_consumer(taker)
    node.turns.run()
    assert taker.bodies() == ["m0", "m1", "m2", "m3", "m4"]
    assert not any(delivery.redelivered for delivery in taker.deliveries)


async def test_a_search_ends_at_its_limit_and_another_goes_on(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(queue, 10, 4)
    monkeypatch.setattr(message_search, "LOOKS_MAX", 3)
    bodies: list[str] = []
    places = [Place(0, 1)]
    for _ in range(4):
        some, search = await found(queue, MessageFilter(), places)
        assert len(some) <= 3
        bodies += some
        places = list(search.places)
    assert bodies == [f"m{at}" for at in range(1, 10)]
    assert places == []


async def test_who_stops_early_goes_on_behind_the_last_one(queue: Queue) -> None:
    fill(queue, 5, 5)
    search = MessageSearch(queue, MessageFilter(), [Place(0, 1, 4)])
    async for each in search.found():
        assert each.offset == 1
        break
    assert list(map(str, search.places)) == ["0:2-4"]
    assert list((await found(queue, MessageFilter(), search.places))[0]) == ["m2", "m3"]


async def test_a_batch_that_is_passed_over_is_one_look(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(queue, 12, 4)
    queue.publish(records("here", "there"), True)
    monkeypatch.setattr(message_search, "LOOKS_MAX", 3)
    none, search = await found(queue, MessageFilter(text=b"here"))
    assert (none, search.looked_at, list(map(str, search.places))) == ({}, 12, ["0:12"])
    both, search = await found(queue, MessageFilter(text=b"here"), search.places)
    assert (list(both), search.looked_at, list(search.places)) == (["here", "there"], 2, [])


async def test_a_search_ends_at_its_limit_of_bytes(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        queue.publish(records("x" * 1_000), True)
    monkeypatch.setattr(message_search, "SEARCHED_BYTES_MAX", 2_000)
    _, search = await found(queue, MessageFilter(text=b"absent"))
    assert list(map(str, search.places)) == ["0:2"]


async def test_a_place_that_ends_in_a_batch_that_is_passed_over(queue: Queue) -> None:
    fill(queue, 4, 4)
    none, search = await found(queue, MessageFilter(text=b"absent"), [Place(0, 1, 3)])
    assert (none, search.looked_at, list(search.places)) == ({}, 2, [])


async def test_a_condition_of_sql_passes_over_batches_too(queue: Queue) -> None:
    for name in ("red", "blue", "red"):
        parts = [message(headers={"n": n, "name": name}, body=b"%d" % n) for n in range(4)]
        queue.publish(batch(*parts), True)
    condition = parsed_sql("name = 'blue' AND n > 1")
    wanted, search = await found(queue, MessageFilter(condition=condition))
    assert list(wanted) == ["2", "3"]
    assert (search.looked_at, search._looks) == (12, 1 + 4 + 1)


async def test_key_text_and_time(queue: Queue) -> None:
    queue.publish(records("one", "two"), True)
    queue.publish(records("three"), True)
    assert list((await found(queue, MessageFilter(text=b"o")))[0]) == ["one", "two"]
    assert list((await found(queue, MessageFilter(key=b"k", text=b"hr")))[0]) == ["three"]
    assert await _none(queue, MessageFilter(key=b"other"))
    assert await _none(queue, MessageFilter(header=(b"a", b"b")))
    assert await _none(queue, MessageFilter(since=1))  # they came at 0
    assert await _none(queue, MessageFilter(until=0))


async def _none(queue: Queue, wanted: MessageFilter) -> bool:
    return not (await found(queue, wanted))[0]


async def test_a_deleted_queue_has_nothing(node: Node, queue: Queue) -> None:
    fill(queue, 5)
    node.vhost.delete_queue(queue, if_unused=False, if_empty=False)
    assert await _none(queue, MessageFilter())


async def test_several_partitions_one_after_the_other(node: Node) -> None:
    properties = QueueProperties("parts", durable=False, arguments={"x-partitions": 3})
    queue = declare_queue(node.vhost, properties, object())[0]
    for at, partition in enumerate(queue.partitions):
        partition.log.append(records(f"a{at}", f"b{at}"))
    places = [Place(2, 0), Place(0, 1)]
    assert list((await found(queue, MessageFilter(), places))[0]) == ["a2", "b2", "b0"]


async def test_a_settled_head_and_returns_far_ahead(node: Node, queue: Queue) -> None:
    fill(queue, 6, 2)
    taker = Taker(prefetch=6)
    queue.add_consumer(taker)
    node.turns.run()
    deliveries = taker.take()
    settle(deliveries[0])
    queue.detach([taker])
    give_back(deliveries[2])
    states, _ = await found(queue, MessageFilter())
    assert states == {"m2": "unacked", "m3": "unacked", "m4": "ready", "m5": "ready"}
