"""Who has to do with which queue, compared with the messages themselves, one by one."""

import pytest

from routelog.benchmarks.traffic.topology import Topology
from routelog.benchmarks.traffic.unexpected import BadRequest
from routelog.benchmarks.traffic.workload import ExchangeType, Workload

WORKLOADS = [
    Workload(),
    Workload(producers=3, queues=6, consumers=2),
    Workload(producers=6, queues=3, consumers=3),
    Workload(producers=4, queues=4, consumers=4),
    Workload(queues=2, consumers=5),
    Workload(exchange_type=ExchangeType.FANOUT, queues=5, consumers=5),
    Workload(exchange_type=ExchangeType.FANOUT, queues=5, consumers=2, producers=2),
    Workload(exchange_type=ExchangeType.TOPIC, queues=3, bindings=7, keys=50, producers=2),
    Workload(exchange_type=ExchangeType.DIRECT, queues=6, fan_out=3, consumers=6, bindings=4),
    Workload(exchange_type=ExchangeType.HEADERS, queues=4, consumers=4, producers=4),
]


def _queues_of(topology: Topology, group: int) -> set[str]:
    copies = topology.workload.copies
    return set(topology.queues[group * copies : (group + 1) * copies])


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_a_sole_producer_is_one_whose_every_message_comes_once_and_nobody_elses(
    workload: Workload,
) -> None:
    workload.check()
    topology = Topology(workload, "b")
    for consumer in range(workload.consumers):
        mine = [each.queue for each in topology.subscriptions_of(consumer)]
        sharing = sum(
            mine[0] in [each.queue for each in topology.subscriptions_of(other)]
            for other in range(workload.consumers)
        )
        counts = {
            (producer, len(_queues_of(topology, route.group) & set(mine)))
            for producer in range(workload.producers)
            for route in topology.routes_of(producer)
        }
        reaching = {producer for producer, count in counts if count}
        exact = sharing == 1 and len(reaching) == 1 and counts >= {(min(reaching), 1)}
        exact = exact and not any(p in reaching and count != 1 for p, count in counts)
        assert topology.sole_producer_of(consumer) == (min(reaching) if exact else None)


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_every_queue_is_read_and_every_queue_gets_messages(workload: Workload) -> None:
    topology = Topology(workload, "b")
    consumers, producers = range(workload.consumers), range(workload.producers)
    read = {each.queue for c in consumers for each in topology.subscriptions_of(c)}
    reached = {
        queue
        for p in producers
        for route in topology.routes_of(p)
        for queue in _queues_of(topology, route.group)
    }
    assert read == reached == set(topology.queues)


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        (Workload(5), "6 bytes at least"),
        (Workload(consumers=0), "confirms"),
        (Workload(prefetch=10, ack_every=11), "never comes"),
        (Workload(prefetch=65_536), "65535"),
        (Workload(bindings=1), "no bindings"),
        (Workload(queues=2, fan_out=2), "not the default"),
        (Workload(exchange_type=ExchangeType.FANOUT, queues=4, fan_out=2), "all queues"),
        (Workload(exchange_type=ExchangeType.TOPIC, queues=5, fan_out=2), "multiple"),
        (Workload(exchange_type=ExchangeType.TOPIC, queues=5, keys=4), "of its own"),
        (Workload(exchange_type=ExchangeType.DIRECT, keys=4), "nowhere"),
        (Workload(exchange_type=ExchangeType.TOPIC, keys=1_000_001), "at most"),
        (Workload(queues=1_000_001), "queues"),
        (Workload(producers=65_537), "producers"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(workload: Workload, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        workload.check()
