"""From runs of publishes to the plan of a commit: the queues that will get them, their returns and replies."""

from collections.abc import Callable, Sequence
from functools import partial

from routelog.amqp_front.publishing.firehose import traces
from routelog.amqp_front.publishing.publishing_channel import PublishingChannel
from routelog.amqp_front.publishing.return_sender import ReturnSender
from routelog.amqp_front.publishing.run_messages import RunMessages
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.wire.command import PublishRun
from routelog.amqp_front.wire.single_run import LOOKED_AT_MAX, at_once, without_blind_copies
from routelog.log_backend import Durability, Receipt, Records
from routelog.vhosts import (
    Decision,
    MessageCounters,
    Router,
    StatefulRoute,
    VhostCounters,
    batches_of,
)

NAMES_MAX = 4_096  # queues of all routes that are planned at once: 1 to 2 ms


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
        self._published: dict[bytes, tuple[int, int]] = {}
        self._unroutable = {True: 0, False: 0}  # mandatory ones, and others
        # Not a method: the plan would know its planner, and both their channel, for the garbage collector.
        counted = self._published, self._unroutable, channel.counters, self._vhost.counters
        plan.remembered.append(partial(_count, *counted))
        passage = partial(self._vhost.passage, plan.undecided)
        is_reply = self._replies.is_open
        self._router = Router(
            self._vhost.routing, channel.services.scheduler, passage, is_reply, NAMES_MAX
        )

    def add(self, run: PublishRun) -> int:
        """Route a run and plan it, or as much of it as one step is to bear.

        Returns:
            How many of its messages, at least 1.

        Raises:
            SoftError: 406, see `CommitPlan.add`.
            ExchangeNotFound: its exchange is gone meanwhile.
        """
        listeners, plan = self._vhost.listeners, self.plan
        if listeners:
            run = at_once(run)
        exchange = run.exchange.decode()
        plan.exchanges.add(exchange)
        messages, now = RunMessages(run), self._clock.now()
        decision: Decision = self._router.decide(exchange, messages, 0, run.count)
        bare = without_blind_copies(run)
        for reply in decision.replies.items():
            plan.told.append(partial(self._replies.send, reply[0], bare, reply[1], self._clock))
        self._return(run, decision.returned)
        copies = 0
        stored: dict[int, bool] = {}
        for records, queues, places in batches_of(
            messages, decision.deliver, self._vhost.targets, now
        ):
            plan.add(records, queues)
            copies += records.count * len(queues)
            if decision.passage is not None:
                levels = {queue.durability for queue in queues}
                is_kept = messages.persistent and not levels <= {Durability.MEMORY}
                stored |= {at: is_kept or stored.get(at, False) for at in places}
        count, routed = self._published.get(run.exchange, (0, 0))
        self._published[run.exchange] = count + decision.end, routed + copies
        if decision.passage is not None:
            self._remember(messages, stored, decision.passage)
        if listeners:
            plan.told += traces(listeners, self._channel, run, decision)
        return decision.end

    def _remember(
        self, messages: RunMessages, stored: dict[int, bool], passage: StatefulRoute
    ) -> None:
        plan, now = self.plan, self._clock.now()

        def remember(needed: Receipt) -> list[Callable[[], None]]:
            return passage.remember(stored, messages.persistent, records, needed)

        def records(indexes: list[int]) -> Records:
            return messages.parts([indexes], now)[0]

        plan.passages.append(passage)
        plan.remembering.append(remember)
        plan.needed = plan.needed.joined(passage.needed)

    def _return(self, run: PublishRun, indexes: Sequence[int]) -> None:
        if not run.mandatory:
            self._unroutable[False] += len(indexes)
            return
        self._unroutable[True] += len(indexes)
        for at in range(0, len(indexes), LOOKED_AT_MAX):
            some = indexes[at : at + LOOKED_AT_MAX]
            self.plan.told.append(partial(self._returns.send, run, some))


def _count(
    published: dict[bytes, tuple[int, int]],
    unroutable: dict[bool, int],
    counters: MessageCounters,
    vhost: VhostCounters,
) -> None:
    # The plan is appended.
    for exchange, (count, routed) in published.items():
        counters.published_to(exchange, count)
        vhost.exchange(exchange.decode()).published(count, routed)
    for mandatory, count in unroutable.items():
        if count:
            counters.unroutable(count, mandatory)
