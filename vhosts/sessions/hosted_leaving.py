"""The end of a session: what its front had comes back to the queues, and its consumers leave them, in turns.

A queue hands out nothing while its messages come back, so that nothing behind them goes first. Until then the
consumers keep their places, so that an exclusive or single active one is not followed too early.
"""

import logging
from collections.abc import Iterable, Iterator
from heapq import merge

from routelog.vhosts.messages.delivery import DeliverySource, ReturnReason
from routelog.vhosts.queues.queue_handle import QueueHandle
from routelog.vhosts.sessions.hosted_consumer import HostedConsumer
from routelog.vhosts.sessions.offset_ranges import OffsetRanges
from routelog.vhosts.sessions.unsettled import Unsettled
from routelog.vhosts.vhost.vhost import VirtualHost

log = logging.getLogger(__name__)

# Between two looks at the clock: what the rules of a queue do takes up to 2 us each
PIECE_MESSAGES = 512
SORTED_CONSUMERS = 512  # likewise

_Ranges = tuple[DeliverySource, OffsetRanges]


class _Share:
    # What one queue has to do with.
    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.consumers: list[HostedConsumer] = []
        self.unsettled: list[_Ranges] = []


def leaving(
    consumers: Iterable[HostedConsumer],
    got: Iterable[tuple[VirtualHost, QueueHandle, Unsettled]],
    paused: Iterable[DeliverySource],
) -> Iterator[None]:
    """Return all that is unsettled, and let consumers leave their queues; it yields where the turn may end.

    Args:
        got: what was handed out by gets, with its queues.
        paused: sources that wait for more to come back.
    """
    shares: dict[QueueHandle, _Share] = {}
    for at, consumer in enumerate(consumers):
        share = shares.setdefault(consumer.queue, _Share(consumer.vhost))
        share.consumers.append(consumer)
        share.unsettled += consumer.take_all()
        if at % SORTED_CONSUMERS == SORTED_CONSUMERS - 1:
            yield
    for vhost, queue, unsettled in got:
        shares.setdefault(queue, _Share(vhost)).unsettled += unsettled.take_all()
    for queue, share in shares.items():
        try:
            yield from _leave(queue, share)
        except Exception:  # it keeps nothing from the other queues
            log.exception("the consumers of a front have left %s, which failed", queue)
    for source in paused:
        source.resume()


def _leave(queue: QueueHandle, share: _Share) -> Iterator[None]:
    ranges: dict[DeliverySource, list[OffsetRanges]] = {}
    for source, part in share.unsettled:
        ranges.setdefault(source, []).append(part)
    for source in ranges:
        source.pause()
    try:
        if not queue.deleted:
            queue.detach({*share.consumers})
        for source, parts in ranges.items():
            yield from _return(source, parts)
    finally:
        for source in ranges:
            source.counters.note()
            source.resume()
    share.vhost.consumers_left(queue.name)


def _return(source: DeliverySource, parts: list[OffsetRanges]) -> Iterator[None]:
    count = 0
    for begin, end in merge(*parts):
        first = begin
        while first < end:
            piece = min(end, first + PIECE_MESSAGES)
            # How much of it clients were given, nobody knows
            source.give_back(first, piece, ReturnReason.EXCUSED)
            count += piece - first
            first = piece
            if count >= PIECE_MESSAGES:
                count = 0
                yield
