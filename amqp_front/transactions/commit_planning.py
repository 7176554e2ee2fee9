"""The plan of a commit in the making: in as many turns of the event loop as it takes.

Others have theirs in between. What they change is looked for at the end, in the turn that carries the plan out;
then it is made again. In a vhost whose topology never rests, routes may at last be as old as the commit, but
lead to no queue and come from no exchange that has gone.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from routelog.amqp_front.consuming.settling import Settling
from routelog.amqp_front.publishing.publishing_channel import PublishingChannel
from routelog.amqp_front.publishing.return_sender import ReturnSender
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.transactions.run_planner import RunPlanner
from routelog.amqp_front.transactions.transaction import Kept, KeptRun
from routelog.vhosts import Recipient

TRIES_MAX = 3  # for routes of one moment


class CommitPlanning:
    """The plan of one commit, until it can be carried out.

    Attributes:
        settlings: of what it settles or returns.

    Args:
        returns: of the channel.
        kept: checked publishes, in order.
    """

    def __init__(
        self,
        channel: PublishingChannel,
        returns: ReturnSender,
        kept: Sequence[Kept],
        settlings: Sequence[Settling] = (),
    ) -> None:
        self.settlings = settlings
        self._channel = channel
        self._returns = returns
        self._vhost = channel.vhost
        self._kept = kept
        self._scheduler = channel.services.scheduler
        self._tries = 0
        self._sorting = self._sorted()
        self._begin()

    def _begin(self) -> None:
        self._plan = CommitPlan(self._vhost.routing.version)
        self._planner = RunPlanner(self._channel, self._returns, self._plan)
        self._tries += 1
        self._planning = self._planned()

    def go_on(self) -> CommitPlan | None:
        """Plan as much as a turn of the loop is to bear.

        Returns:
            The plan, to be carried out in this turn; None: it takes another one.

        Raises:
            SoftError: 406, see `CommitPlan`.
            HardError: 540, likewise.
            ExchangeNotFound: the exchange of a publish is gone meanwhile.
            JournalFailed: a message is a duplicate, and the disk failed before.
            SessionLost: what it settles came from a node that does not lead any more.
        """
        for _ in chain(self._sorting, self._planning):
            if self._scheduler.is_over():
                return None
        if not all(settling.is_prepared() for settling in self.settlings):
            self._sorting = self._sorted()
            return None
        if not self._is_current():
            self._begin()
            return None
        self._plan.needed = self._plan.needed.joined(self._vhost.unrouted)
        remote = self._vhost.definitions.remote_transaction()
        if remote is not None:
            self._plan.check(remote.progress)
            return self._plan
        self._plan.check(self._vhost.hosted.logs.progress)
        if self._vhost.hosted.logs.is_committing and self._plan.takes_turns:
            return None
        return self._plan

    def _sorted(self) -> Iterator[None]:
        for settling in self.settlings:
            while settling.prepare_some():
                yield

    def _planned(self) -> Iterator[None]:
        for each in self._kept:
            run = each.run() if isinstance(each, KeptRun) else each
            done = self._planner.add(run)
            while done < run.count:
                yield
                done += self._planner.add(run.part(done, run.count - done))
            yield

    def _is_current(self) -> bool:
        plan, vhost = self._plan, self._vhost
        if not all(passage.is_current() for passage in plan.passages):
            return False
        if plan.version == vhost.routing.version:
            return True
        for name in plan.exchanges:
            vhost.routing.exchange(name)
        return self._tries >= TRIES_MAX and all(map(self._is_there, plan.recipients))

    def _is_there(self, recipient: Recipient) -> bool:
        return self._vhost.targets.find(recipient.name) is recipient
