"""The limit of deliveries: a message that comes back too often leaves its queue.

A message may be delivered again as often as `x-delivery-limit` says. The count survives restarts, and every
return counts: `basic.reject`, `basic.nack`, `basic.recover`, the end of its channel.

Source: RabbitMQ's quorum queues, `rabbit_fifo.erl`; the default is that of RabbitMQ 4.
"""

from collections.abc import Mapping

from routelog.vhosts.partitions.queue_partition import QueuePartition

QUORUM_DEFAULT = 20  # deliveries after the first one
UNLIMITED = -1


def delivery_limit(arguments: Mapping[str, object]) -> int | None:
    """The delivery limit in the arguments of a queue; None: there is no limit."""
    default = QUORUM_DEFAULT if arguments.get("x-queue-type") == "quorum" else UNLIMITED
    limit = arguments.get("x-delivery-limit", default)
    return limit if isinstance(limit, int) and limit != UNLIMITED else None


Ranges = list[tuple[int, int]]


def within_limit(
    partition: QueuePartition, first: int, end: int, limit: int
) -> tuple[Ranges, Ranges]:
    """The ranges of returned messages [first, end) within the delivery limit, and those above it."""
    over = [(first, end)]
    if limit:
        over = partition.cursor.delivery_counts.reaching(first, end, limit)
    kept: Ranges = []
    at = first
    for begin, stop in over:
        if at < begin:
            kept.append((at, begin))
        at = stop
    if at < end:
        kept.append((at, end))
    return kept, over
