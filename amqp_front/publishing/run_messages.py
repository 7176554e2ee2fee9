"""A run of publishes as exchanges and queues see it."""

from collections.abc import Sequence
from typing import Self

from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun
from routelog.amqp_front.wire.properties import Properties, copies
from routelog.amqp_front.wire.record_attributes import record_attributes
from routelog.exchanges import Message
from routelog.log_backend import Records


class RunMessages:
    """See `ClientMessages`."""

    def __init__(self, run: PublishRun) -> None:
        self._run = run
        self._attributes: int = record_attributes(run)
        self._keys = run.keys()
        has_copies = bool(run.property_flags & CARBON_COPY)
        self._has_copies = has_copies
        self.shared_key = None if has_copies else run.routing_key
        self.single_keys = None if has_copies else self._keys
        self.persistent = run.persistent

    def keys(self, index: int) -> Sequence[bytes]:
        """See `Messages`."""
        more = copies(self.properties(index).headers) if self._has_copies else ()
        return (self._keys[index], *more)

    def properties(self, index: int) -> Message:
        """See `Messages`."""
        return Properties(self._run.properties(index)).message()

    def parts(self, selections: list[list[int]], time: int) -> list[Records]:
        """See `ClientMessages`."""
        return self._run.parts(selections, self._attributes, time)

    def kept(self, count: int) -> Self:
        """See `ClientMessages`."""
        return type(self)(self._run.kept(count))
