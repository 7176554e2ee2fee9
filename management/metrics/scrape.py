"""The three scrapes: sums of a node, each of its objects, and chosen groups of these."""

import asyncio
from collections.abc import AsyncIterator, Collection

from routelog.management.calls.process_usage import process_usage
from routelog.management.metrics.client_metrics import (
    Wanted,
    chosen_text,
    metric_text,
    objects_text,
)
from routelog.management.metrics.counter_metrics import CHURN
from routelog.management.metrics.metric import sample_text
from routelog.management.metrics.node_metrics import (
    ALARM_METRICS,
    NODE_METRICS,
    OWN_METRICS,
    PROCESS_METRICS,
    identity_text,
    labelled_text,
)
from routelog.management.metrics.object_metrics import OF_CLIENTS, OF_QUEUES_AND_GROUPS
from routelog.management.metrics.process_metrics import all_clients_text
from routelog.management.metrics.watched import WatchedNode

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


def known_groups() -> set[str]:
    """All that `detailed` may be asked for."""
    kinds = OF_QUEUES_AND_GROUPS + OF_CLIENTS
    of_objects = (name for kind in kinds for name in (*kind.groups, *kind.groups_of_each))
    return {*of_objects, *NODE_METRICS, *PROCESS_METRICS, *CHURN, *_EMPTY_GROUPS}


def aggregated(node: WatchedNode) -> AsyncIterator[str]:
    """All metrics, of objects the sums."""
    return _scraped(node, Wanted(in_sum=True))


def of_each(node: WatchedNode) -> AsyncIterator[str]:
    """All metrics, of objects those of each."""
    return _scraped(node, Wanted())


def detailed(
    node: WatchedNode, groups: Collection[str], vhosts: Collection[str]
) -> AsyncIterator[str]:
    """The metrics of some groups, of objects those of each.

    Args:
        groups: unknown ones are answered with a comment, as configurations for later releases may have them.
        vhosts: only the objects in these; empty: in all.
    """
    return _scraped(node, Wanted(groups=groups, vhosts=vhosts))


async def _scraped(node: WatchedNode, wanted: Wanted) -> AsyncIterator[str]:
    for text in identity_text(node):
        yield text
    for group in sorted(set(wanted.groups or ()) - known_groups()):
        yield f"# no such family: {group!r}\n"
    usage = await asyncio.to_thread(process_usage)
    for text in chosen_text(NODE_METRICS, node, wanted.groups):
        yield text
    if usage is not None:
        for text in chosen_text(PROCESS_METRICS, usage, wanted.groups):
            yield text
    if wanted.groups is None:
        for metric in (*ALARM_METRICS, *OWN_METRICS):
            yield metric_text(metric, metric.name, node)
        for text in labelled_text(node):
            yield text
    broker = node.broker()
    if broker is None:
        return
    async for text in all_clients_text(node, broker, wanted):
        yield text
    if wanted.groups is None:
        queues = sum(len(vhost.queues) for vhost in broker.vhosts.all())
        yield sample_text("rabbitmq_queues", "gauge", "Queues", queues)
    async for text in objects_text(broker, wanted, OF_QUEUES_AND_GROUPS):
        yield text
