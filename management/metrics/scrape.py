"""The three scrapes: sums of a node, each of its objects, and chosen groups of these.

A sum goes through all objects in turns of the event loop, and so do the samples of each object, which are sent
before the next ones are made. So 100,000 queues are scraped for seconds, and no client waits for that.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any, TypeVar

from routelog.log_backend import Lane, in_turns, pause
from routelog.management.calls.listing import let_go
from routelog.management.calls.process_usage import process_usage
from routelog.management.metrics.counter_metrics import CHURN, global_text, totals_text
from routelog.management.metrics.metric import Groups, Metric, head, labelled, sample_text
from routelog.management.metrics.node_metrics import (
    ALARM_METRICS,
    NODE_METRICS,
    OWN_METRICS,
    PROCESS_METRICS,
    identity_text,
    labelled_text,
)
from routelog.management.metrics.object_metrics import KINDS, ObjectKind, Vhosts
from routelog.management.metrics.watched import WatchedBroker, WatchedNode

SLICE_SAMPLES = 512  # made in one turn: about half a millisecond

# RabbitMQ's, of which there is nothing here.
_EMPTY_GROUPS = frozenset(
    {
        "auth_attempt_detailed_metrics",
        "auth_attempt_metrics",
        "channel_process_metrics",
        "node_persister_metrics",
        "ra_metrics",
    }
)

_Of = TypeVar("_Of")


def known_groups() -> set[str]:
    """All that `detailed` may be asked for."""
    of_objects = (name for kind in KINDS for name in (*kind.groups, *kind.groups_of_each))
    return {*of_objects, *NODE_METRICS, *PROCESS_METRICS, *CHURN, *_EMPTY_GROUPS}


async def aggregated(node: WatchedNode) -> AsyncIterator[str]:
    """All metrics, of objects the sums."""
    async for text in _node_text(node):
        yield text
    broker = node.broker()
    if broker is not None:
        for text in totals_text(broker.vhosts.counters):
            yield text
        vhosts = _vhosts(broker)
        for kind in KINDS:
            yield await _sums_text(kind, broker, vhosts)


async def of_each(node: WatchedNode) -> AsyncIterator[str]:
    """All metrics, of objects those of each."""
    async for text in _node_text(node):
        yield text
    broker = node.broker()
    if broker is not None:
        async for text in _objects_text(broker, _vhosts(broker), None):
            yield text


async def detailed(
    node: WatchedNode, groups: Collection[str], vhosts: Collection[str]
) -> AsyncIterator[str]:
    """The metrics of some groups, of objects those of each.

    Args:
        groups: unknown ones are answered with a comment, as configurations for later releases may have them.
        vhosts: only the objects in these; empty: in all.
    """
    for text in identity_text(node):
        yield text
    for group in sorted(set(groups) - known_groups()):
        yield f"# no such family: {group!r}\n"
    for text in await _groups_text(node, groups):
        yield text
    broker = node.broker()
    if broker is not None:
        for text in _chosen_text(CHURN, broker.vhosts.counters.churn, groups):
            yield text
        chosen = {
            name: each for name, each in _vhosts(broker).items() if not vhosts or name in vhosts
        }
        async for text in _objects_text(broker, chosen, groups):
            yield text


def _vhosts(broker: WatchedBroker) -> Vhosts:
    return {vhost.name: vhost for vhost in broker.vhosts.all()}


async def _node_text(node: WatchedNode) -> AsyncIterator[str]:
    for text in identity_text(node):
        yield text
    for text in await _groups_text(node, None):
        yield text
    for metric in (*ALARM_METRICS, *OWN_METRICS):
        yield _text(metric, metric.name, node)
    for text in labelled_text(node):
        yield text
    broker = node.broker()
    if broker is not None:
        counters = broker.vhosts.counters
        for text in (*_chosen_text(CHURN, counters.churn, None), *global_text(counters)):
            yield text
        yield await _totals_text(broker)


async def _groups_text(node: WatchedNode, groups: Collection[str] | None) -> list[str]:
    """The groups of the node; None: all of them, under their usual names."""
    usage = await asyncio.to_thread(process_usage)
    found = list(_chosen_text(NODE_METRICS, node, groups))
    return found if usage is None else [*found, *_chosen_text(PROCESS_METRICS, usage, groups)]


def _chosen_text(table: Groups[_Of], of: _Of, groups: Collection[str] | None) -> Iterable[str]:
    for group, metrics in table.items():
        for metric in metrics:
            if groups is None:
                yield _text(metric, metric.name, of)
            elif group in groups:
                yield _text(metric, metric.detailed_name, of)


def _text(metric: Metric[_Of], name: str, of: _Of) -> str:
    return sample_text(name, metric.kind, metric.help, metric.read(of))


async def _totals_text(broker: WatchedBroker) -> str:
    channels = consumers = publishers = 0
    async for connection in in_turns(broker.connections.connections(), Lane.OPERATORS):
        channels += len(connection.channels)
        consumers += connection.consumers
        publishers += sum(channel.counters.publish > 0 for channel in connection.channels)
    amqp = labelled({"protocol": "amqp091"})
    queues = sum(len(vhost.queues) for vhost in broker.vhosts.all())
    totals = (
        ("rabbitmq_connections", "", "Connections of AMQP", broker.connections.count),
        ("rabbitmq_channels", "", "Channels", channels),
        ("rabbitmq_consumers", "", "Consumers", consumers),
        ("rabbitmq_queues", "", "Queues", queues),
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


async def _objects_text(
    broker: WatchedBroker, vhosts: Vhosts, groups: Collection[str] | None
) -> AsyncIterator[str]:
    for kind in KINDS:
        metrics = kind.chosen(groups)
        if not metrics:
            continue
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
