"""Deletion of consumer groups that were unused for their `x-group-expires`."""

import asyncio
import logging
from collections.abc import Callable, Iterator

from routelog.log_backend import CallLater, Lane, MetadataUnavailable, Scheduler, Timer
from routelog.vhosts.queues.consumer_group import ConsumerGroup
from routelog.vhosts.vhost.vhost import VirtualHost

log = logging.getLogger(__name__)

SWEEP_SECONDS = 30.0  # Kafka sweeps every ten minutes; short expiries are for tests


class GroupExpiry:
    """Sweeps over the groups of all vhosts, notes since when each is unused, and deletes those that expired.

    Args:
        vhosts: returns all vhosts.
        monotonic: the clock, in seconds.
        call_later: runs a function after some seconds.
    """

    def __init__(
        self,
        vhosts: Callable[[], list[VirtualHost]],
        monotonic: Callable[[], float],
        call_later: CallLater,
        scheduler: Scheduler,
    ) -> None:
        self._vhosts = vhosts
        self._monotonic = monotonic
        self._call_later = call_later
        self._scheduler = scheduler
        self._timer: Timer | None = None
        self._left: Iterator[tuple[VirtualHost, ConsumerGroup]] = iter(())

    def start(self) -> None:
        """Begin the first sweep after a pause."""
        self._timer = self._call_later(SWEEP_SECONDS, self._round)

    def stop(self) -> None:
        """End the sweeps."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _round(self) -> None:
        groups = [
            (vhost, group) for vhost in self._vhosts() for group in vhost.hosted.groups.queues
        ]
        self._left = iter(groups)
        self._scheduler.call(Lane.UPKEEP, self._visit_next)

    def _visit_next(self) -> bool:
        if self._timer is None:
            return False
        for vhost, group in self._left:
            if _is_over(group, self._monotonic()):
                try:
                    _delete(vhost, group)
                except MetadataUnavailable as error:
                    log.error("%s has expired and stays until a restart: %s", group, error)
                    return False
            return True
        self.start()
        return False


def _is_over(group: ConsumerGroup, now: float) -> bool:
    if group.deleted or group.is_used or group.creating is not None:
        group.idle_since = None
        return False
    if group.idle_since is None:
        group.idle_since = now
    expires = group.record.expires
    return expires is not None and now - group.idle_since >= expires / 1_000_000


def _delete(vhost: VirtualHost, group: ConsumerGroup) -> None:
    durable = vhost.hosted.groups.delete(group)
    log.info("%s has expired: nobody has used it for its x-group-expires", group)
    if durable is not None:
        asyncio.ensure_future(durable).add_done_callback(lambda done: _report(done, group))


def _report(done: "asyncio.Future[int]", group: ConsumerGroup) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("%s has expired, and may come back with a restart: %s", group, error)
