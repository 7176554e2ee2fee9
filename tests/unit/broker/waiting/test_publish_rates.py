"""Publish rates: how much passes, who waits for how long, and what waiting connections are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import Node, running_node

from routelog.broker.waiting.gate import TELL_SECONDS
from routelog.broker.waiting.publish_rates import BURST_SECONDS, PublishRates
from routelog.vhosts import CountOf, SharedCounts, User, UserDirectory, VhostRecord

FIRST_RUN = 8_192  # as large as a read of small messages brings


async def no_hash(password: bytes) -> str:
    return ""


class Rates:
    """The rates of a node whose clock goes when it is told."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.users = UserDirectory(node.writer, no_hash)
        self.counts = SharedCounts()
        self.rates = self.again()
        # The test clock knows no less than a microsecond: a timer of less rings at once, again and again.
        self.rates.call_later = lambda seconds, call: node.turns.call_later(seconds + 1e-6, call)

    def again(self) -> PublishRates:
        """The rates of a node that starts."""
        turns = self.node.turns
        return PublishRates(
            self.users, self.node.vhosts, self.counts, turns.clock, turns.call_later
        )

    async def limit(self, user: str, **limits: int) -> None:
        """Limit a user, who is there afterwards."""
        if self.users.find(user) is None:
            await self.users.put_user(User(user, ""))
        await self.users.set_limits(user, {k.replace("_", "-"): v for k, v in limits.items()})


class Client:
    """A connection that publishes as fast as it may."""

    def __init__(self, rates: Rates, user: str = "ann", size: int = 10, run: int = FIRST_RUN):
        self.pace = rates.rates.pace(user, "/")
        self.size, self.run = size, run
        self.published = 0
        self.told: list[str] = []
        self.publish()

    def publish(self) -> None:
        for _ in range(10_000):
            if self.pace.owed_seconds():
                return self.pace.hold(self)
            count = min(self.run, self.pace.run_messages or self.run)
            self.published += count
            self.pace.published(count, count * self.size)
        raise AssertionError("nothing limits it")

    def tell_blocked(self, reason: str) -> None:
        self.told.append(reason)

    def let_go(self) -> None:
        self.publish()


@pytest.fixture
async def rates(tmp_path: Path) -> AsyncIterator[Rates]:
    async with running_node(tmp_path) as node:
        yield Rates(node)


class NodeOfThree(Rates):
    """One of three nodes, each of which publishes for ann as fast as it may, or at a rate of its own."""

    def publish(self, wanted: int | None) -> None:
        """Publish from now on, as fast as it may, or so many messages a second."""
        self.client = None if wanted is not None else Client(self)
        self.wanted = wanted or 0
        self.published = 0

    def pass_second(self) -> int:
        """A second has passed, in the turns of all nodes; returns how many messages it has published."""
        if self.client is None:
            self.rates.pace("ann", "/").published(self.wanted, 0)
            return self.wanted
        before, self.published = self.published, self.client.published
        return self.published - before


# What three nodes want, and how much of a limit of 900 each gets in the end; None: as much as it may
SHARED = [
    ((None, 0, 0), (900, 0, 0)),
    ((None, None, None), (300, 300, 300)),
    ((None, 100, 0), (800, 100, 0)),
    ((None, 300, 300), (300, 300, 300)),
    ((10, 20, 30), (10, 20, 30)),
]


@pytest.mark.parametrize(("wanted", "shares"), SHARED)
async def test_nodes_share_a_rate_by_what_each_needs(
    rates: Rates, wanted: tuple[int | None, ...], shares: tuple[int, ...]
) -> None:
    nodes = [NodeOfThree(rates.node) for _ in wanted]
    for node, rate in zip(nodes, wanted, strict=True):
        await node.limit("ann", max_publish_rate=900)
        node.publish(rate)
    published: list[list[int]] = []
    key = CountOf.USER_MESSAGES, "ann"
    for _ in range(20):
        rates.node.turns.pass_seconds(1)
        published.append([node.pass_second() for node in nodes])
        for node in nodes:
            node.rates.share()
        total = sum(node.counts.own[key] for node in nodes)
        for node in nodes:
            node.counts.learn([(key, total - node.counts.own[key])], len(nodes))
    for at, share in enumerate(shares):
        grown = sum(second[at] for second in published[-10:])
        assert grown == pytest.approx(10 * share, rel=0.03)


async def test_a_node_that_begins_to_publish_is_let_in_within_seconds(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=900)
    key = CountOf.USER_MESSAGES, "ann"
    rates.counts.learn([(key, 900)], 3)
    rates.rates.share()
    client = Client(rates)
    rates.node.turns.pass_seconds(4)  # what had gathered is spent
    before = client.published
    rates.node.turns.pass_seconds(1)
    assert client.published - before == pytest.approx(300, rel=0.05)
    rates.rates.share()
    assert rates.counts.own[key] >= 300


async def test_what_has_no_limit_any_more_is_not_counted(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=900)
    rates.rates.pace("ann", "/").published(7, 0)
    rates.rates.share()
    assert rates.counts.own[CountOf.USER_MESSAGES, "ann"] == 7
    await rates.limit("ann")
    assert not rates.counts.own


@pytest.mark.parametrize("connections", [1, 100])
@pytest.mark.parametrize("rate", [100, 1_000, 250_000])
async def test_over_ten_seconds_the_rate_of_messages_is_exact(
    rates: Rates, rate: int, connections: int
) -> None:
    await rates.limit("ann", max_publish_rate=rate)
    clients = [Client(rates) for _ in range(connections)]
    begun = sum(client.published for client in clients)
    assert begun >= rate * BURST_SECONDS
    rates.node.turns.pass_seconds(4)
    before = [client.published for client in clients]
    rates.node.turns.pass_seconds(10)
    grown = [client.published - was for client, was in zip(clients, before, strict=True)]
    assert sum(grown) == pytest.approx(10 * rate, rel=0.02)
    assert max(grown) - min(grown) <= max(rate // 100, 10)


async def test_over_ten_seconds_the_rate_of_bytes_is_exact(rates: Rates) -> None:
    await rates.limit("ann", max_publish_bytes_rate=1_000_000)
    clients = [Client(rates, size=size) for size in (10, 700, 9_000)]
    rates.node.turns.pass_seconds(4)
    before = sum(client.published * client.size for client in clients)
    rates.node.turns.pass_seconds(10)
    published = sum(client.published * client.size for client in clients) - before
    assert published == pytest.approx(10_000_000, rel=0.02)


async def test_timers_that_ring_late_lose_nothing(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=1_000)
    turns = rates.node.turns
    ring = turns.call_later
    rates.rates.call_later = lambda seconds, call: ring(seconds + 0.007, call)
    client = Client(rates)
    turns.pass_seconds(2)
    before = client.published
    turns.pass_seconds(10)
    assert client.published - before == pytest.approx(10_000, rel=0.02)


async def test_who_has_published_nothing_for_long_may_publish_what_comes_in_a_second(
    rates: Rates,
) -> None:
    await rates.limit("ann", max_publish_rate=500)
    pace = rates.rates.pace("ann", "/")
    rates.node.turns.pass_seconds(3600)
    pace.published(500, 0)
    assert pace.owed_seconds() == 0
    pace.published(1, 0)
    assert pace.owed_seconds() == pytest.approx(1 / 500)


async def test_a_batch_is_whole_and_waited_for_afterwards(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=1_000)
    pace = rates.rates.pace("ann", "/")
    pace.published(5_000, 0)
    assert pace.owed_seconds() == pytest.approx(4)
    assert rates.rates.pace("bob", "/").owed_seconds() == 0


async def test_the_slower_of_user_and_vhost_counts_and_names_itself(rates: Rates) -> None:
    await rates.node.vhosts.put(VhostRecord("/", limits={"max-publish-bytes-rate": 100}))
    await rates.limit("ann", max_publish_rate=100)
    pace = rates.rates.pace("ann", "/")
    pace.published(200, 0)
    assert (pace.owed_seconds(), pace.refusal()) == (1, "publish rate of user 'ann'")
    pace.published(0, 1_100)
    assert (pace.owed_seconds(), pace.refusal()) == (10, "publish rate of vhost '/'")


async def test_who_comes_again_for_each_message_is_no_faster(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=10)
    turns, published = rates.node.turns, 0
    end = turns.clock.monotonic() + 20
    while turns.clock.monotonic() < end:
        pace = rates.rates.pace("ann", "/")
        turns.pass_seconds(pace.owed_seconds())
        pace.published(1, 1)
        published += 1
    assert published == pytest.approx(20 * 10 + 10 * BURST_SECONDS, abs=2)


async def test_it_is_told_for_each_second_that_it_has_waited(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=1_000)
    client = Client(rates)
    assert client.pace.reasons == set()
    rates.node.turns.pass_seconds(TELL_SECONDS - 0.1)
    assert client.told == []
    rates.node.turns.pass_seconds(0.2)
    assert client.told == ["publish rate of user 'ann'"]
    assert client.pace.reasons == set(client.told)
    rates.node.turns.pass_seconds(9)
    assert len(client.told) == 10
    (limited,) = rates.rates.limited
    assert limited.owner == "user 'ann'"
    assert limited.waited_seconds == pytest.approx(10.1, abs=0.05)


async def test_who_was_within_the_rate_for_a_second_waits_anew(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=1_000)
    client = Client(rates)
    rates.node.turns.pass_seconds(1.5)
    client.pace.forget(client)
    rates.node.turns.pass_seconds(TELL_SECONDS + 1)
    client.publish()
    assert client.pace.reasons == set()
    assert len(client.told) == 1


async def test_other_limits_let_all_go_on_that_wait(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=1)
    client = Client(rates)
    quiet = rates.rates.pace("ann", "/")
    quiet.published(1_000, 0)
    assert quiet.owed_seconds() > 999
    before = client.published
    await rates.limit("ann", max_publish_rate=100)
    assert client.published >= before + 100
    assert quiet.owed_seconds() < 1
    with pytest.raises(AssertionError, match="nothing limits it"):
        await rates.limit("ann", max_connections=7)
    assert not rates.rates.are_set
    assert quiet.owed_seconds() == 0


async def test_another_limit_of_the_user_gives_him_nothing(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=10)
    client = Client(rates)
    before = client.published
    await rates.limit("ann", max_publish_rate=10, max_connections=7)
    assert client.published == before
    assert client.pace.owed_seconds() > 0


async def test_who_leaves_waits_for_nothing_and_leaves_what_is_owed(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=1)
    client = Client(rates)
    client.pace.published(60, 0)
    assert rates.node.turns.waiting
    client.pace.forget(client)
    assert not rates.node.turns.waiting
    del client
    assert rates.rates.pace("ann", "/").owed_seconds() > 59


async def test_a_start_finds_the_limits_and_owes_nothing(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=1)
    await rates.node.vhosts.put(VhostRecord("/", limits={"max-publish-rate": 5}))
    rates.rates.pace("ann", "/").published(1_000, 0)
    again = rates.again()
    assert {each.owner for each in again.limited} == {"user 'ann'", "vhost '/'"}
    assert again.pace("ann", "/").owed_seconds() == 0


async def test_what_is_deleted_limits_nobody(rates: Rates) -> None:
    await rates.limit("ann", max_publish_rate=1)
    await rates.node.vhosts.put(VhostRecord("v", limits={"max-publish-rate": 5}))
    await rates.users.delete_user("ann")
    assert rates.rates.are_set
    await rates.node.vhosts.delete("v")
    assert not rates.rates.are_set
