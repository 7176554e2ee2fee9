"""The limit of deliveries: a message that comes back too often leaves its queue.

A message may be delivered again as often as `x-delivery-limit` says. The count is kept over restarts, and all
that brings a message back counts: `basic.reject`, `basic.nack`, `basic.recover`, the end of its channel.

Source: RabbitMQ's quorum queues, `rabbit_fifo.erl`; the default is that of RabbitMQ 4.
"""

from collections.abc import Mapping

from routelog.vhosts.partitions.queue_partition import QueuePartition

QUORUM_DEFAULT = 20  # deliveries after the first one
UNLIMITED = -1


def delivery_limit(arguments: Mapping[str, object]) -> int | None:
    """How often the arguments of a queue let a message be delivered again; None: for ever."""
    default = QUORUM_DEFAULT if arguments.get("x-queue-type") == "quorum" else UNLIMITED
    limit = arguments.get("x-delivery-limit", default)
    return limit if isinstance(limit, int) and limit != UNLIMITED else None


Ranges = list[tuple[int, int]]


def within_limit(
    partition: QueuePartition, first: int, end: int, limit: int
) -> tuple[Ranges, Ranges]:
    """What of messages [first, end) that come back may be delivered again, and what may not."""
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
