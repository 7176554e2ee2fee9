"""Deletion of consumer groups that were unused for their `x-group-expires`."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import islice

from routelog.log_backend import MetadataUnavailable
from routelog.vhosts.queues.consumer_group import ConsumerGroup
from routelog.vhosts.timer import CallLater, Timer
from routelog.vhosts.vhost.vhost import VirtualHost

log = logging.getLogger(__name__)

SWEEP_SECONDS = 30.0  # Kafka sweeps every ten minutes; short expiries are for tests
GROUPS_MAX = 256  # of one turn of the loop: well below 1 ms when none is deleted


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
    ) -> None:
        self._vhosts = vhosts
        self._monotonic = monotonic
        self._call_later = call_later
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin the first sweep after a pause."""
        self._timer = self._call_later(SWEEP_SECONDS, self._round)

    def stop(self) -> None:
        """End the sweeps."""
        if self._timer is not None:
            self._timer.cancel()

    def _round(self) -> None:
        groups = [(vhost, group) for vhost in self._vhosts() for group in vhost.groups.queues]
        self._turn(iter(groups))

    def _turn(self, left: Iterator[tuple[VirtualHost, ConsumerGroup]]) -> None:
        now = self._monotonic()
        looked_at = list(islice(left, GROUPS_MAX))
        for vhost, group in looked_at:
            if not _is_over(group, now):
                continue
            try:
                _delete(vhost, group)
            except MetadataUnavailable as error:
                log.error("%s has expired and stays until a restart: %s", group, error)
                return
        if len(looked_at) < GROUPS_MAX:
            self.start()
        else:
            self._timer = self._call_later(0, lambda: self._turn(left))


def _is_over(group: ConsumerGroup, now: float) -> bool:
    if group.deleted or group.is_used or group.creating is not None:
        group.idle_since = None
        return False
    if group.idle_since is None:
        group.idle_since = now
    expires = group.record.expires
    return expires is not None and now - group.idle_since >= expires / 1_000_000


def _delete(vhost: VirtualHost, group: ConsumerGroup) -> None:
    durable = vhost.groups.delete(group)
    log.info("%s has expired: nobody has used it for its x-group-expires", group)
    if durable is not None:
        asyncio.ensure_future(durable).add_done_callback(lambda done: _report(done, group))


def _report(done: "asyncio.Future[int]", group: ConsumerGroup) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("%s has expired, and may come back with a restart: %s", group, error)
