"""Metrics of what the clients of a process have made, and of objects: sums, or each.

A sum goes through all objects in turns of the event loop, and so do the samples of each object, which are sent
before the next ones are made. So 100,000 queues are scraped for seconds, and no client waits for that.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from routelog.log_backend import Lane, in_turns, pause
from routelog.management.calls.broker_side import WatchedBroker
from routelog.management.calls.listing import let_go
from routelog.management.metrics.counter_metrics import CHURN, global_text, totals_text
from routelog.management.metrics.metric import Groups, Metric, head, labelled, sample_text
from routelog.management.metrics.node_metrics import measures_text
from routelog.management.metrics.object_metrics import OF_CLIENTS, ObjectKind, Vhosts

SLICE_SAMPLES = 512  # made in one turn: about half a millisecond

_Of = TypeVar("_Of")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A scrape.

    Attributes:
        in_sum: objects are summed; else each is told of.
        groups: chosen ones; None: all, under their usual names.
        vhosts: only the objects in these; empty: in all.
    """

    in_sum: bool = False
    groups: Collection[str] | None = None
    vhosts: Collection[str] = ()


async def clients_text(broker: WatchedBroker, wanted: Wanted) -> AsyncIterator[str]:
    """What clients of this process have, and have done."""
    counters = broker.vhosts.counters
    for text in chosen_text(CHURN, counters.churn, wanted.groups):
        yield text
    if wanted.groups is None:
        for text in (*global_text(counters), *measures_text(broker)):
            yield text
        yield await _totals_text(broker)
    if wanted.in_sum:
        for text in totals_text(counters):
            yield text
    async for text in objects_text(broker, wanted, OF_CLIENTS):
        yield text


async def objects_text(
    broker: WatchedBroker, wanted: Wanted, kinds: Iterable[ObjectKind[Any]]
) -> AsyncIterator[str]:
    """Objects of some kinds."""
    vhosts = {
        vhost.name: vhost
        for vhost in broker.vhosts.all()
        if not wanted.vhosts or vhost.name in wanted.vhosts
    }
    for kind in kinds:
        if wanted.in_sum:
            yield await _sums_text(kind, broker, vhosts)
        else:
            async for text in _each_text(kind, broker, vhosts, wanted.groups):
                yield text


def chosen_text(table: Groups[_Of], of: _Of, groups: Collection[str] | None) -> Iterable[str]:
    """The metrics of some groups; None: of all, under their usual names."""
    for group, metrics in table.items():
        for metric in metrics:
            if groups is None:
                yield metric_text(metric, metric.name, of)
            elif group in groups:
                yield metric_text(metric, metric.detailed_name, of)


def metric_text(metric: Metric[_Of], name: str, of: _Of) -> str:
    """A metric under a name."""
    return sample_text(name, metric.kind, metric.help, metric.read(of))


async def _totals_text(broker: WatchedBroker) -> str:
    channels = consumers = publishers = 0
    async for connection in in_turns(broker.connections.connections(), Lane.OPERATORS):
        channels += len(connection.channels)
        consumers += connection.consumers
        publishers += sum(channel.counters.publish > 0 for channel in connection.channels)
    amqp = labelled({"protocol": "amqp091"})
    totals = (
        ("rabbitmq_connections", "", "Connections of AMQP", broker.connections.count),
        ("rabbitmq_channels", "", "Channels", channels),
        ("rabbitmq_consumers", "", "Consumers", consumers),
        ("rabbitmq_global_consumers", amqp, "Consumers", consumers),
        ("rabbitmq_global_publishers", amqp, "Channels that have published", publishers),
    )
    return "".join(
        sample_text(name, "gauge", meaning, count, labels)
        for name, labels, meaning, count in totals
    )


async def _sums_text(kind: ObjectKind[_Of], broker: WatchedBroker, vhosts: Vhosts) -> str:
    metrics = kind.summed()
    if not metrics:
        return ""
    sums: list[float] = [0] * len(metrics)
    async for each in in_turns(kind.find(broker, vhosts), Lane.OPERATORS):
        for at, metric in enumerate(metrics):
            sums[at] += metric.read(each) or 0
    return "".join(
        sample_text(metric.name, metric.kind, metric.help, total)
        for metric, total in zip(metrics, sums, strict=True)
    )


async def _each_text(
    kind: ObjectKind[Any], broker: WatchedBroker, vhosts: Vhosts, groups: Collection[str] | None
) -> AsyncIterator[str]:
    metrics = kind.chosen(groups)
    if not metrics:
        return
    found = [
        (each, labelled(kind.labels(each)))
        async for each in in_turns(kind.find(broker, vhosts), Lane.OPERATORS)
    ]
    for metric in metrics:
        name = metric.name if groups is None else metric.detailed_name
        yield head(name, metric.kind, metric.help)
        for first in range(0, len(found), SLICE_SAMPLES):
            yield _samples(name, metric, found[first : first + SLICE_SAMPLES])
            await pause(Lane.OPERATORS)
    await let_go(found)


def _samples(name: str, metric: Metric[Any], found: Sequence[tuple[Any, str]]) -> str:
    read = metric.read
    return "".join(
        [f"{name}{labels} {value}\n" for each, labels in found if (value := read(each)) is not None]
    )
