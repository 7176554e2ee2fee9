"""The load of the journal's benchmark, against a real broker: what it counts is what was confirmed."""

from __future__ import annotations

import pytest
from pika_client import ready_count

from routelog.benchmarks.traffic.journal_load import journal_load

pytestmark = pytest.mark.differs_from_rabbitmq("it has no x-durability")


@pytest.mark.parametrize(("queues", "run"), [(1, 4), (3, 4), (6, 2), (5, 1)])
def test_bursts_go_to_the_queues_in_turn(broker, channel, queues, run):
    with journal_load(broker.url, queues, publishers=2, burst=4, run=run) as load:
        rate = load.confirmed_per_second(0.05)
        names = [f"bench.disk.{queues}.{run}.{number:06d}" for number in range(queues)]
        counts = [ready_count(channel, name) for name in names]
        # The last burst of each publisher ends behind the window.
        assert sum(counts) == round(rate * 0.05) + 2 * 4
        assert max(counts) - min(counts) <= run
        load.empty()
        assert [ready_count(channel, name) for name in names] == [0] * queues


@pytest.mark.parametrize("durability", ["memory", "os", "disk"])
def test_one_in_flight_is_one_message_and_its_confirm(broker, channel, durability):
    with journal_load(broker.url, 1, durability=durability) as load:
        assert load.confirm_seconds() > 0
        assert ready_count(channel, f"bench.{durability}.1.1.000000") == 1
