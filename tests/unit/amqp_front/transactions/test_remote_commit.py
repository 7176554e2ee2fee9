"""A tx.commit does the same here and by way of a session: all of it, or nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from support.queue_samples import bodies, numbered, records
from unit.vhosts.rules.test_unique_keys import keyed
from unit.vhosts.sessions.queue_places import Place, place
from unit.vhosts.sessions.session_pipe import RemoteTaker

from routelog.amqp_front.consuming.settling import Settling
from routelog.amqp_front.consuming.unacked import UnackedRun
from routelog.amqp_front.transactions.commit import Commit, CommitEnd
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.transactions.remote_commit import RemoteCommit
from routelog.amqp_front.wire.errors import NOT_IMPLEMENTED, AmqpError, HardError
from routelog.log_backend import Reason, Records
from routelog.vhosts import Delivery, Queue, ReturnReason, TransactionRefused
from routelog.vhosts.counters.counters import ChangedCounters, MessageCounters
from routelog.vhosts.errors import SessionLost
from routelog.vhosts.sessions.front_transaction import FrontTransaction

__all__ = ["place"]

at_fronts = pytest.mark.parametrize("place", ["front", "slow front"], indirect=True)

Outcome = Reason | ReturnReason


class Client:
    """A channel of a place: it holds deliveries, and commits.

    Attributes:
        told: how often a commit has told what it had to.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.vhost: Any = None
        self.counters = MessageCounters(ChangedCounters())
        self.told = 0
        turns, progress = place.node.turns, place.node.logs.progress
        self.services: Any = SimpleNamespace(
            loop=turns, scheduler=turns.scheduler, progress=progress, settlings=deque()
        )

    def begin_turn(self) -> None:
        """See `Holdings`."""

    def let_go(self, holder: Any, count: int) -> None:
        """See `Holdings`."""
        holder.unacked -= count
        holder.source.has_credit(holder)

    def begin(
        self,
        published: Sequence[tuple[Any, Sequence[str] | Records]],
        settled: Sequence[tuple[Delivery, Outcome]] = (),
        holder: RemoteTaker | None = None,
    ) -> CommitEnd:
        """Begin a commit, as a channel does."""
        place, plan = self.place, CommitPlan(0)
        for queue, contents in published:
            batch = contents if isinstance(contents, Records) else records(*contents)
            plan.add(batch, (queue,))
        plan.told.append(self._tell)
        settlings = [self._settling(delivery, outcome, holder) for delivery, outcome in settled]
        if place.front is None:
            plan.check(place.node.logs.progress)
            transaction = place.node.logs.transaction()
            return Commit(self.services, transaction, plan, settlings)
        remote = FrontTransaction(place.front.link.session)
        plan.check(remote.progress)
        return RemoteCommit(self.services, remote, plan, settlings)

    def _tell(self) -> None:
        self.told += 1

    def _settling(
        self, delivery: Delivery, outcome: Outcome, holder: RemoteTaker | None
    ) -> Settling:
        held: Any = holder
        run = UnackedRun(1, 1 + delivery.count, delivery.partition, delivery.offset, held)
        settling = Settling(self, [run], outcome, self.services)
        while settling.prepare_some():
            pass
        assert settling.is_prepared()
        return settling

    async def commit(self, *arguments: Any) -> None:
        """Commit, and await it."""
        await self.place.value(self.begin(*arguments).reached)


@pytest.fixture
def client(place: Place) -> Client:
    return Client(place)


async def taken(place: Place, queue: Any, prefetch: int = 0) -> RemoteTaker:
    """A consumer of what a queue has."""
    taker = RemoteTaker(prefetch)
    await place.attach(queue, taker)
    await place.rest()
    return taker


def of(taker: RemoteTaker, *contents: str) -> list[Delivery]:
    """The messages that a consumer has, each alone."""
    found = {}
    for each in taker.deliveries:
        for at, body in enumerate(bodies(each)):
            found[body] = Delivery(
                each.partition, each.records, each.index + at, 1, each.offset + at, False
            )
    return [found[body] for body in contents]


async def test_a_commit_publishes_and_settles(place: Place, client: Client) -> None:
    first, other = await place.queue("in"), await place.queue("out")
    await place.publish(first, *numbered(0, 6))
    taker = await taken(place, first, 5)
    m0, m1, m2 = of(taker, "m0", "m1", "m2")
    settled = [(m0, Reason.ACKED), (m1, Reason.REJECTED), (m2, ReturnReason.RETURNED)]
    await client.commit([(other, ["a", "b"]), (first, ["c"])], settled, taker)
    assert client.told == 1
    assert await place.value(other.counts()) == (2, 0)
    # What is returned comes back behind the commit: at a front, credit may be there before.
    assert sorted(await place.took(taker)) == ["c", "m0", "m1", "m2", "m2", "m3", "m4", "m5"]
    assert taker.unacked == 5


async def test_what_get_gave_is_settled(place: Place, client: Client) -> None:
    queue = await place.queue()
    await place.publish(queue, "a", "b")
    got = await place.get(queue)
    assert got is not None
    await client.commit([], [(got, Reason.ACKED)])
    assert await place.value(queue.counts()) == (1, 0)
    await client.commit([])
    assert client.told == 2


async def test_a_full_queue_refuses_all_of_it(place: Place, client: Client) -> None:
    plain, full = await place.queue("p"), await place.queue(max_length=2, overflow="reject-publish")
    await place.publish(plain, "in")
    got = await place.get(plain)
    assert got is not None
    with pytest.raises((AmqpError, TransactionRefused), match=r"queue 'q' .* is full"):
        await client.commit([(plain, ["x"]), (full, ["1", "2", "3"])], [(got, Reason.ACKED)])
    await place.rest()
    assert client.told == 0
    if place.front is None:  # its channel gives it back when it is closed
        got.partition.give_back(got.offset, got.offset + 1, ReturnReason.FAILED)
    await place.rest()
    assert await place.value(full.counts()) == (0, 0)
    assert await place.value(plain.counts()) == (1, 0)
    again = await place.get(plain)
    assert again is not None
    assert (bodies(again), again.redelivered) == (["in"], True)


async def test_a_large_one_is_carried_out_in_turns(place: Place, client: Client) -> None:
    queue = await place.queue()
    place.node.turns.clock.look_microseconds = 300
    await client.commit([(queue, [f"m{at}"]) for at in range(300)])
    taker = await taken(place, queue)
    assert await place.took(taker) == numbered(0, 300)


@at_fronts
async def test_a_deleted_queue_gets_nothing(place: Place, client: Client) -> None:
    first, other = await place.queue("in"), await place.queue("out")
    place.node.vhost.delete_queue(place.node.vhost.queues["in"])
    await client.commit([(first, ["gone"]), (other, ["there"])])
    assert await place.value(other.counts()) == (1, 0)


async def test_what_it_settles_holds_no_key_for_what_it_publishes(
    place: Place, client: Client
) -> None:
    queue = await place.queue(message_deduplication=True)
    await place.publish_batch(queue, keyed("a", "b", "c", "d"))
    taker = await taken(place, queue, 3)
    a, b, c = of(taker, "a", "b", "c")
    settled = [(c, Reason.REJECTED), (a, Reason.ACKED), (b, ReturnReason.RETURNED)]
    await client.commit([(queue, keyed("a", "b", "c", "d", "a"))], settled, taker)
    assert sorted(await place.took(taker)) == ["a", "a", "b", "b", "c", "d"]
    await place.publish_batch(queue, keyed("a", "b", "c", "d"))
    assert await place.value(queue.counts()) == (1, 1)  # the other `c`


async def test_a_key_stays_with_its_message_when_a_commit_fails(
    place: Place, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, other = await place.queue(message_deduplication=True), await place.queue("other")
    await place.publish_batch(queue, keyed("a"))
    got = await place.get(queue)
    assert got is not None
    publish = Queue.publish

    def fails_for_other(target: Queue, batch: Records, waited: bool) -> int:
        if target.name == "other":
            raise RuntimeError("an error of the broker")
        return publish(target, batch, waited)

    monkeypatch.setattr(Queue, "publish", fails_for_other)
    with pytest.raises(Exception, match=r"an error of the broker"):
        await client.commit([(queue, keyed("a")), (other, ["m"])], [(got, Reason.ACKED)])
    if place.front is None:  # its channel gives it back when it is closed
        got.partition.give_back(got.offset, got.offset + 1, ReturnReason.FAILED)
    await place.rest()
    await place.publish_batch(queue, keyed("a"))
    assert await place.value(queue.counts()) == (1, 0)


# -- sessions that end


@pytest.fixture
def front(place: Place) -> Any:
    assert place.front is not None
    return place.front


async def prepared(place: Place, client: Client) -> tuple[Any, Callable[[], CommitEnd]]:
    """A queue whose message becomes two of another one by a commit."""
    source, target = await place.queue("in"), await place.queue("out")
    await place.publish(source, "input")
    taker = await taken(place, source)
    (delivery,) = of(taker, "input")
    published = [(target, ["one"]), (target, ["two"])]
    return taker, lambda: client.begin(published, [(delivery, Reason.ACKED)], taker)


def stored(place: Place) -> tuple[int, int]:
    """How many messages are there: inputs, outputs."""
    queues = place.node.vhost.queues
    partitions = [queues[name].partitions[0] for name in ("in", "out")]
    return partitions[0].ready + partitions[0].in_flight, partitions[1].ready


@at_fronts
async def test_a_session_that_ends_before_it_came_leaves_nothing(
    place: Place, client: Client, front: Any
) -> None:
    _, begin = await prepared(place, client)
    commit = begin()
    front.cut()
    with pytest.raises(SessionLost, match=r"the transaction is down"):
        await place.value(commit.reached)
    place.node.turns.run()
    assert (stored(place), client.told) == ((1, 0), 0)


@at_fronts
async def test_a_session_that_ends_behind_it_leaves_all(
    place: Place, client: Client, front: Any
) -> None:
    front.is_whole = True
    _, begin = await prepared(place, client)
    commit = begin()
    place.node.turns.run()
    front._to_leader.carry()
    front.cut()
    with pytest.raises(SessionLost):
        await place.value(commit.reached)
    async with asyncio.timeout(30):
        while stored(place) != (0, 2):
            await place.rest()


@at_fronts
@pytest.mark.parametrize("carried", range(12))
async def test_a_session_that_ends_anywhere_leaves_all_or_nothing(
    place: Place, client: Client, front: Any, carried: int
) -> None:
    front.is_whole = False
    _, begin = await prepared(place, client)
    commit = begin()
    for _ in range(carried):
        place.node.turns.run()
        front.carry()
    front.cut()
    with suppress(SessionLost):
        await place.value(commit.reached)
    async with asyncio.timeout(30):  # what has come as a whole is carried out to its end
        while stored(place) not in ((1, 0), (0, 2)):
            await place.rest()


@at_fronts
async def test_what_a_lost_session_delivered_is_settled_by_no_transaction(
    place: Place, client: Client, front: Any
) -> None:
    taker, begin = await prepared(place, client)
    front.cut()
    front.open()
    with pytest.raises(SessionLost, match=r"what the transaction settles"):
        begin()
    assert await place.took(taker) == ["input", "input"]
    assert stored(place) == (1, 0)


@at_fronts
async def test_a_session_that_ends_while_it_is_made_refuses_it(
    place: Place, client: Client, front: Any
) -> None:
    _, begin = await prepared(place, client)
    commit = begin()  # it has no turn here, and goes on in the next one
    front.cut()
    front.open()
    with pytest.raises(SessionLost):
        await place.value(commit.reached)
    await place.rest()
    assert stored(place) == (1, 0)


@at_fronts
async def test_an_exchange_that_remembers_is_of_no_transaction(place: Place, front: Any) -> None:
    client, plan = Client(place), CommitPlan(0)
    passage: Any = None
    plan.passages.append(passage)
    with pytest.raises(HardError, match=r"remembers") as raised:
        RemoteCommit(client.services, FrontTransaction(front.link.session), plan, ())
    assert raised.value.code == NOT_IMPLEMENTED
