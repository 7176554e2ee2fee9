"""The passage of a run through exchanges that remember what came by."""

from collections.abc import Callable, Mapping

from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun
from routelog.amqp_front.wire.properties import Properties, copies
from routelog.amqp_front.wire.record_attributes import record_attributes
from routelog.exchanges import Route
from routelog.log_backend import JournalPositions, Records
from routelog.vhosts import Recipient, VirtualHost, disjoint


class RunPassage:
    """Messages of one run that share a passage; they are known by their indexes in the run.

    Attributes:
        passage: theirs.

    Args:
        now: the time of their records.
        undecided: see `Passage`.
    """

    def __init__(
        self,
        vhost: VirtualHost,
        run: PublishRun,
        now: int,
        undecided: set[tuple[str, bytes]] | None = None,
    ) -> None:
        self.passage = vhost.passage(undecided)
        self._targets = vhost.targets
        self._run = run
        self._attributes = record_attributes(run)
        self._now = now
        self._keys = run.keys()
        self._chosen: dict[Route, list[int]] = {}

    def route(self, exchange: str, first: int) -> int:
        """Route messages from the first on, to that whose fate hangs on one before it.

        Returns:
            Its index; the count of the run when there is none.

        Raises:
            See `Passage.route`.
        """
        run = self._run
        for at in range(first, run.count):
            message = Properties(run.properties(at)).message()
            more = copies(message.headers) if run.property_flags & CARBON_COPY else ()
            route = self.passage.route(at, exchange, (self._keys[at], *more), message)
            if route is None:
                return at
            self._chosen.setdefault(route, []).append(at)
        return run.count

    def unrouted(self) -> list[int]:
        """The messages that no queue is to get, but for duplicates."""
        return [at for at in self._chosen.get((), ()) if at not in self.passage.duplicates]

    def batches(self) -> list[tuple[Records, tuple[Recipient, ...], list[int]]]:
        """Records, the queues that are to get them, and their indexes; each queue is in one batch only."""
        chosen = disjoint({route: indexes for route, indexes in self._chosen.items() if route})
        if not chosen:
            return []
        parts = self._run.parts(list(chosen.values()), self._attributes, self._now)
        queues = map(self._targets.of, chosen)
        return list(zip(parts, queues, chosen.values(), strict=True))

    def remember(
        self, stored: Mapping[int, bool], positions: JournalPositions
    ) -> list[Callable[[], None]]:
        """End the passage, see `Passage.remember`.

        Args:
            positions: what their confirm waits for.
        """
        written, durable = positions
        return self.passage.remember(
            stored, self._run.persistent, self._records, written=written, durable=durable
        )

    def _records(self, indexes: list[int]) -> Records:
        return self._run.parts([indexes], self._attributes, self._now)[0]
