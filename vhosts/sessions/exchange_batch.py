"""A batch from a front for an exchange, at the leader: routed and stored as what a client here publishes."""

import logging
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from routelog.exchanges import ExchangeNotFound, Message
from routelog.log_backend import (
    NOTHING,
    JournalFailed,
    MalformedProperties,
    Receipt,
    Records,
    Scheduler,
    split_records,
)
from routelog.vhosts.errors import TooLargeToRemember, Untaken
from routelog.vhosts.messages.property_list import PropertyList
from routelog.vhosts.publishing.appending import Appending
from routelog.vhosts.publishing.client_publish import batches_of
from routelog.vhosts.publishing.decision import Decision, Router
from routelog.vhosts.publishing.internal_publish import decoded_message
from routelog.vhosts.rules.death import copied_to
from routelog.vhosts.vhost.vhost import VirtualHost

log = logging.getLogger(__name__)


class RecordMessages:
    """The messages of a batch, as a client's: see `ClientMessages`."""

    shared_key = single_keys = None

    def __init__(self, records: Records) -> None:
        self._records = records
        self.persistent: bool = records.persistent

    def keys(self, index: int) -> Sequence[bytes]:
        """See `Messages`."""
        key = self._records.routing_key(index)
        try:
            return (key, *copied_to(PropertyList(self._records.properties(index))))
        except MalformedProperties:
            return (key,)

    def properties(self, index: int) -> Message:
        """See `Messages`."""
        return decoded_message(self._records.properties(index))

    def parts(self, selections: list[list[int]], time: int) -> list[Records]:
        """See `ClientMessages`; their time is what it was."""
        return [self._part(selection) for selection in selections]

    def kept(self, count: int) -> "RecordMessages":
        """See `ClientMessages`: all are kept."""
        return self

    def _part(self, selection: list[int]) -> Records:
        wanted = array("i", bytes(4 * self._records.count))
        for at in selection:
            wanted[at] = 1
        return dict(split_records(self._records, wanted, 2))[1]


class RoutedBatch(NamedTuple):
    """What became of a batch.

    Attributes:
        needed: covered when what was taken is what its queues promise.
    """

    needed: Receipt
    untaken: Untaken


def route_batch(
    vhost: VirtualHost, exchange: str, records: Records, scheduler: Scheduler, *, waited: bool
) -> RoutedBatch:
    """Route a batch from an exchange, and store it, all in this turn.

    An exchange that is gone refuses it. So does an error of the broker, which is logged: what queues have of it
    by then stays there.

    Raises:
        JournalFailed: the disk failed before.
    """
    publish = _Publish(vhost, records, scheduler)
    publish.appending.begin(waited)
    try:
        publish.carry_out(exchange)
    except (JournalFailed, ExchangeNotFound, TooLargeToRemember) as error:
        if isinstance(error, JournalFailed):
            raise
        log.info("what a front published is refused: %s", error)
    except Exception:
        log.exception("an error of the broker, routing what a front published to '%s'", exchange)
    refused = {*publish.appending.refused, *range(publish.end, records.count)}
    return RoutedBatch(publish.needed, Untaken(sorted(refused), publish.returned))


class _Publish:
    # `end`: of the messages that were carried out.
    def __init__(self, vhost: VirtualHost, records: Records, scheduler: Scheduler) -> None:
        self._vhost = vhost
        self._messages = RecordMessages(records)
        self._count = records.count
        self._router = Router(vhost.routing, scheduler, vhost.passage)
        self.appending = Appending(scheduler)
        self.end = 0
        self.needed: Receipt = NOTHING
        self.returned: list[int] = []

    def carry_out(self, exchange: str) -> None:
        while self.end < self._count:
            decision: Decision = self._router.decide(
                exchange, self._messages, self.end, self._count, True
            )
            self.needed = self.needed.joined(self._store(decision))
            self.returned += decision.returned
            self.end = decision.end
        self.needed = self.needed.joined(self._vhost.unrouted)

    def _store(self, decision: Decision) -> Receipt:
        messages = self._messages
        batches = batches_of(messages, decision.deliver, self._vhost.targets, 0)
        if decision.passage is None:
            receipt: Receipt = self.appending.append(batches, True)
            return receipt

        def records(indexes: list[int]) -> Records:
            return messages.parts([indexes], 0)[0]

        return decision.passage.store(batches, self.appending, messages.persistent, records)
