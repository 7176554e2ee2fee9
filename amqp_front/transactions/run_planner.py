"""From runs of publishes to the plan of a commit: the queues that will get them, their returns and replies."""

from collections.abc import Callable, Sequence
from functools import partial

from routelog.amqp_front.publishing.firehose import traces
from routelog.amqp_front.publishing.publishing_channel import PublishingChannel
from routelog.amqp_front.publishing.return_sender import ReturnSender
from routelog.amqp_front.publishing.run_messages import RunMessages, run_batches
from routelog.amqp_front.transactions.commit_counts import CommitCounts
from routelog.amqp_front.transactions.commit_plan import CommitPlan, Queues
from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun
from routelog.amqp_front.wire.record_attributes import record_attributes
from routelog.amqp_front.wire.single_run import LOOKED_AT_MAX, at_once, without_blind_copies
from routelog.exchanges import Route
from routelog.log_backend import JournalPositions, Records
from routelog.vhosts import Appending, Decision, Router, StatefulRoute


class RunPlanner:
    """Plans checked publishes of one transaction; nothing happens to them before that is carried out.

    Attributes:
        plan: what they are added to.

    Args:
        returns: of the channel.
    """

    def __init__(self, channel: PublishingChannel, returns: ReturnSender, plan: CommitPlan) -> None:
        self.plan = plan
        self._channel = channel
        self._returns = returns
        self._vhost = channel.vhost
        self._clock = channel.services.clock
        self._replies = channel.services.replies
        self._counts = CommitCounts(channel.counters, self._vhost.counters)
        plan.remembered.append(self._counts.carry_out)
        self._turn = Appending(self._clock)
        passage = partial(self._vhost.passage, plan.undecided)
        is_reply = self._replies.is_open
        self._router = Router(self._vhost.routing, self._turn, passage, is_reply)

    def found(self, run: PublishRun) -> list[tuple[Queues, Sequence[int]]] | None:
        """The queues of the first messages of a run: of as many as a turn is to bear, at least of 1.

        Returns:
            Queues, and the indexes of the messages for them; those that are returned have no queues. None: what
            becomes of them hangs on more than where their exchange leads, see `add`.

        Raises:
            ExchangeNotFound: its exchange is gone meanwhile.
        """
        looked_at = self._vhost.listeners or run.property_flags & CARBON_COPY
        if looked_at or self._vhost.routing.remembers(run.exchange.decode()):
            return None
        decision = self._decide(run)
        if decision.replies:
            return None
        found = *decision.deliver.items(), ((), decision.returned)
        return [(self._vhost.targets.of(route), indexes) for route, indexes in found if indexes]

    def _decide(self, run: PublishRun) -> Decision:
        self._turn.begin(False)
        decision: Decision = self._router.decide(
            run.exchange.decode(), RunMessages(run), 0, run.count
        )
        return decision

    def share(self, run: PublishRun, parts: Sequence[tuple[Queues, list[int]]]) -> None:
        """Plan messages of a run, by index, for the queues that were found; with none, they are returned.

        Raises:
            SoftError: 406, see `CommitPlan.add`.
        """
        count = copies = 0
        for queues, indexes in parts:
            count += len(indexes)
            copies += len(indexes) * len(queues)
            if not queues:
                self._return(run, indexes)
        self._counts.published(run.exchange, count, copies)
        routed = [(queues, indexes) for queues, indexes in parts if queues]
        selections = [indexes for _, indexes in routed]
        encoded = run.parts(selections, record_attributes(run), self._clock.now())
        for records, (queues, _) in zip(encoded, routed, strict=True):
            self.plan.add(records, queues)

    def add(self, run: PublishRun) -> int:
        """Route a run and plan it, or as much of it as one turn of the loop is to bear.

        Returns:
            How many of its messages, at least 1.

        Raises:
            SoftError: 406, see `CommitPlan.add`.
            ExchangeNotFound: its exchange is gone meanwhile.
        """
        listeners, plan = self._vhost.listeners, self.plan
        if listeners:
            run = at_once(run)
        decision = self._decide(run)
        bare = without_blind_copies(run)
        for reply in decision.replies.items():
            plan.told.append(partial(self._replies.send, reply[0], bare, reply[1], self._clock))
        self._return(run, decision.returned)
        copies = 0
        for records, queues, _ in run_batches(
            run, decision.deliver, self._vhost, self._clock.now()
        ):
            plan.add(records, queues)
            copies += records.count * len(queues)
        self._counts.published(run.exchange, decision.end, copies)
        if decision.passage is not None:
            self._remember(run, decision.deliver, decision.passage)
        if listeners:
            plan.told += traces(listeners, self._channel, run, decision)
        return decision.end

    def _remember(
        self, run: PublishRun, deliver: dict[Route, list[int]], passage: StatefulRoute
    ) -> None:
        plan = self.plan
        stored = {at: run.persistent for indexes in deliver.values() for at in indexes}
        attributes, now = record_attributes(run), self._clock.now()

        def remember(positions: JournalPositions) -> list[Callable[[], None]]:
            return passage.remember(stored, run.persistent, records, positions)

        def records(indexes: list[int]) -> Records:
            return run.parts([indexes], attributes, now)[0]

        plan.passages.append(passage)
        plan.remembering.append(remember)
        plan.durable = max(plan.durable, passage.durable)

    def _return(self, run: PublishRun, indexes: Sequence[int]) -> None:
        self._counts.unroutable(len(indexes), run.mandatory)
        if run.mandatory:
            for at in range(0, len(indexes), LOOKED_AT_MAX):
                some = indexes[at : at + LOOKED_AT_MAX]
                self.plan.told.append(partial(self._returns.send, run, some))
