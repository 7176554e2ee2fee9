"""What counters say, in RabbitMQ's shapes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import Node, SetClock, declare_queue, records, running_node

from routelog.management.sampling.sampler import SAMPLE_SECONDS, Sampler
from routelog.management.sampling.statistics import (
    SPAN_SAMPLES_MAX,
    BadSpan,
    Span,
    Statistics,
    requested_span,
)
from routelog.vhosts import Queue, QueueProperties

DELIVERED = {"deliver", "deliver_no_ack", "deliver_get", "get", "get_no_ack", "get_empty"}
DELIVERED |= {"ack", "redeliver"}


class Sampled:
    """A node whose sampler goes by a clock of the test."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.clock = SetClock()
        self.sampler = Sampler(node.vhosts, self.clock, lambda: 0)
        node.vhosts.counters.changed.is_watched = True
        self.queue = declare_queue(node.vhost, QueueProperties("q"), object())[0]

    async def later(self) -> None:
        self.clock.microseconds += int(SAMPLE_SECONDS * 1_000_000)
        await self.sampler.sample()

    def statistics(self, **query: str) -> Statistics:
        return Statistics(self.sampler, self.clock, query)


@pytest.fixture
async def sampled(tmp_path: Path) -> AsyncIterator[Sampled]:
    async with running_node(tmp_path) as node:
        yield Sampled(node)


def publish(queue: Queue, count: int) -> None:
    queue.publish(records(*(f"m{at}" for at in range(count))), waited=False)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, None),
        ({"lengths_age": "60"}, None),
        ({"lengths_incr": "5"}, None),
        ({"data_rates_age": "60", "data_rates_incr": "5"}, None),
        ({"lengths_age": "60", "lengths_incr": "5"}, Span(60, 5)),
        ({"lengths_age": "0", "lengths_incr": "1"}, Span(0, 1)),
    ],
)
def test_a_span_is_two_numbers_of_its_kind(query: dict[str, str], expected: Span | None) -> None:
    assert requested_span(query, "lengths") == expected


@pytest.mark.parametrize(
    ("age", "incr"),
    [
        ("x", "5"),
        ("60", ""),
        ("60", "0"),
        ("-60", "5"),
        ("6\u0660", "5"),
        ("9999999", "9999999"),
        (str(SPAN_SAMPLES_MAX + 1), "1"),
    ],
)
def test_a_span_that_cannot_be_is_refused(age: str, incr: str) -> None:
    with pytest.raises(BadSpan):
        requested_span({"lengths_age": age, "lengths_incr": incr}, "lengths")


async def test_a_queue_without_messages_has_no_message_stats(sampled: Sampled) -> None:
    row = sampled.statistics().of_queue(sampled.queue, 0, 0)
    details = {"messages_details", "messages_ready_details", "messages_unacknowledged_details"}
    capacity = dict.fromkeys(("consumer_capacity", "consumer_utilisation"), 0.0)
    assert row == {name: {"rate": 0.0} for name in details} | capacity


async def test_a_queue_shows_what_it_has_counted_and_how_fast(sampled: Sampled) -> None:
    await sampled.later()
    publish(sampled.queue, 20)
    assert sampled.statistics().of_queue(sampled.queue, 20, 0)["message_stats"] == {
        "publish": 20,
        "publish_details": {"rate": 0.0},
    }
    await sampled.later()
    row = sampled.statistics().of_queue(sampled.queue, 20, 0)
    assert row["message_stats"]["publish_details"] == {"rate": 4.0}
    assert row["messages_ready_details"] == row["messages_details"] == {"rate": 4.0}
    sampled.queue.counters.delivered(sampled.node.vhost.counters.channel(), 1, False, False)
    stats = sampled.statistics().of_queue(sampled.queue, 20, 0)["message_stats"]
    expected = DELIVERED | {"publish"}
    assert stats.keys() == expected | {f"{name}_details" for name in expected}
    assert (stats["deliver"], stats["deliver_get"], stats["get"]) == (1, 1, 0)


async def test_samples_are_given_newest_first_at_whole_times(sampled: Sampled) -> None:
    for _ in range(4):
        await sampled.later()
        publish(sampled.queue, 10)
    await sampled.later()
    statistics = sampled.statistics(msg_rates_age="20", msg_rates_incr="5")
    details = statistics.of_queue(sampled.queue, 40, 0)["message_stats"]["publish_details"]
    samples = details["samples"]
    newest = sampled.clock.microseconds // 1_000
    newest -= newest % 5_000
    assert [each["timestamp"] for each in samples] == [newest - at * 5_000 for at in range(5)]
    assert [each["sample"] for each in samples] == [40, 30, 20, 10, 0]
    assert (details["rate"], details["avg_rate"], details["avg"]) == (2.0, 2.0, 20.0)


async def test_lengths_have_samples_of_their_own(sampled: Sampled) -> None:
    await sampled.later()
    publish(sampled.queue, 10)
    await sampled.later()
    statistics = sampled.statistics(lengths_age="5", lengths_incr="5")
    row = statistics.of_queue(sampled.queue, 10, 0)
    assert [each["sample"] for each in row["messages_ready_details"]["samples"]] == [10, 0]
    assert row["message_stats"]["publish_details"].keys() == {"rate"}
    totals = statistics.lengths([sampled.node.vhosts.counters], 10, 0)
    assert [each["sample"] for each in totals["messages_details"]["samples"]] == [10, 0]
    assert totals["messages_details"]["rate"] == 2.0


async def test_what_is_idle_had_its_length_all_the_time(sampled: Sampled) -> None:
    await sampled.later()
    statistics = sampled.statistics(lengths_age="10", lengths_incr="5", msg_rates_age="5")
    rows = [statistics.of_queue(sampled.queue, ready, 0) for ready in (3, 0, 0)]
    for row, ready in zip(rows, (3, 0, 0), strict=True):
        for name, length in {"": ready, "_ready": ready, "_unacknowledged": 0}.items():
            details = row[f"messages{name}_details"]
            assert [each["sample"] for each in details["samples"]] == [length] * 3
            assert (details["rate"], details["avg_rate"], details["avg"]) == (0.0, 0.0, length)
    times = [each["timestamp"] for each in rows[1]["messages_details"]["samples"]]
    assert [times[0] - each for each in times] == [0, 5_000, 10_000]
    shared = [row["messages_ready_details"]["samples"] for row in rows[1:]]
    assert shared[0] is shared[1], "nothing is laid out once for all rows"


async def test_what_does_not_change_is_idle_since_its_last_change(sampled: Sampled) -> None:
    counters, statistics = sampled.queue.counters, sampled.statistics
    started = sampled.clock.monotonic() - 60
    assert statistics().idle_since(counters, started) == {
        "idle_since": "1970-01-12T13:45:40.000+00:00"
    }
    publish(sampled.queue, 1)
    assert statistics().idle_since(counters, started) == {}
    await sampled.later()
    assert statistics().idle_since(counters, started) == {}
    await sampled.later()
    await sampled.later()
    assert statistics().idle_since(counters, started) == {
        "idle_since": "1970-01-12T13:46:45.000+00:00"
    }


async def test_an_exchange_counts_what_comes_and_goes(sampled: Sampled) -> None:
    exchange = sampled.node.vhost.counters.exchange("x")
    exchange.published(3, 6)
    await sampled.later()
    assert sampled.statistics().messages(exchange) == {
        "message_stats": {
            "publish_in": 3,
            "publish_in_details": {"rate": 0.6},
            "publish_out": 6,
            "publish_out_details": {"rate": 1.2},
        }
    }
    assert sampled.statistics().messages(None) == {}


async def test_traffic_and_churn_have_details(sampled: Sampled) -> None:
    connection = sampled.node.vhosts.counters.connection()
    connection.received(100)
    await sampled.later()
    row = sampled.statistics().traffic(connection)
    assert (row["recv_oct"], row["recv_cnt"], row["send_oct"]) == (100, 1, 0)
    assert row["recv_oct_details"] == {"rate": 20.0}
    churn = sampled.statistics().churn(sampled.node.vhosts.counters.churn)
    assert (churn["queue_created"], churn["queue_created_details"]) == (1, {"rate": 0.2})


async def test_a_flow_has_a_rate_while_there_is_traffic(sampled: Sampled) -> None:
    channel = sampled.node.vhost.counters.channel()
    await sampled.later()
    publish(sampled.queue, 50)
    sampled.queue.counters.delivered(channel, 20, no_ack=False, redelivered=False)
    (arriving,) = sampled.queue.counters.from_exchanges.values()
    taken = channel.from_queues[sampled.queue.counters]
    assert sampled.statistics().flow(arriving) == {
        "publish": 50,
        "publish_details": {"rate": 0.0},
    }
    await sampled.later()
    assert sampled.statistics().flow(arriving)["publish_details"] == {"rate": 10.0}
    row = sampled.statistics().flow(taken)
    assert {name for name in row if not name.endswith("_details")} == DELIVERED
    for name in ("deliver", "deliver_get"):
        assert (row[name], row[f"{name}_details"]) == (20, {"rate": 4.0})
    await sampled.later()
    assert sampled.statistics().flow(arriving)["publish_details"] == {"rate": 0.0}
