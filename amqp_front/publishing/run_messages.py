"""A run of publishes as a decision sees it, and the batches of what was decided."""

from collections.abc import Sequence

from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun
from routelog.amqp_front.wire.properties import Properties, copies
from routelog.amqp_front.wire.record_attributes import record_attributes
from routelog.exchanges import Message, Route
from routelog.log_backend import Records
from routelog.vhosts import Recipient, VirtualHost, disjoint


class RunMessages:
    """See `Messages`."""

    def __init__(self, run: PublishRun) -> None:
        self._run = run
        self._keys = run.keys()
        has_copies = bool(run.property_flags & CARBON_COPY)
        self._has_copies = has_copies
        self.shared_key = None if has_copies else run.routing_key
        self.single_keys = None if has_copies else self._keys

    def keys(self, index: int) -> Sequence[bytes]:
        """See `Messages`."""
        more = copies(self.properties(index).headers) if self._has_copies else ()
        return (self._keys[index], *more)

    def properties(self, index: int) -> Message:
        """See `Messages`."""
        return Properties(self._run.properties(index)).message()


def run_batches(
    run: PublishRun, deliver: dict[Route, list[int]], vhost: VirtualHost, now: int
) -> list[tuple[Records, tuple[Recipient, ...], list[int]]]:
    """Records, the queues that get them, and their indexes in the run; no queue is in two of them.

    Args:
        deliver: see `Decision`.
        now: the time of the records.
    """
    chosen = disjoint(deliver)
    parts = run.parts(list(chosen.values()), record_attributes(run), now)
    return list(zip(parts, map(vhost.targets.of, chosen), chosen.values(), strict=True))
