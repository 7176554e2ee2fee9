"""The plan of a commit in the making: in as many turns of the event loop as it takes.

Others have theirs in between. What they change is looked for at the end, in the turn that carries the plan out;
then it is made again. In a vhost whose topology never rests, routes may at last be as old as the commit, but
lead to no queue and come from no exchange that has gone.
"""

from collections.abc import Sequence
from typing import Protocol

from amqp_front.command import PublishRun
from amqp_front.commit_plan import CommitPlan
from amqp_front.settling import Settling
from log_backend import Clock
from vhosts import Recipient, VirtualHost

TURN_SECONDS = 0.001
TRIES_MAX = 3  # for routes of one moment


class PlanningPublisher(Protocol):
    """Who knows how to publish."""

    def plan(self, run: PublishRun, plan: CommitPlan) -> int:
        """Route some messages of a run, and encode them; returns how many, at least 1."""


class Planning:
    """The plan of one commit, until it can be carried out.

    Attributes:
        settlings: of what it settles or returns.

    Args:
        runs: checked ones, in order.
    """

    def __init__(
        self,
        publisher: PlanningPublisher,
        vhost: VirtualHost,
        runs: Sequence[PublishRun],
        clock: Clock,
        settlings: Sequence[Settling] = (),
    ) -> None:
        self.settlings = settlings
        self._unsorted = list(settlings)
        self._publisher = publisher
        self._vhost = vhost
        self._runs = runs
        self._clock = clock
        self._tries = 0
        self._begin()

    def _begin(self) -> None:
        self._plan = CommitPlan(self._vhost.routing.version)
        self._tries += 1
        self._at = self._done = 0  # the run, and how many of its messages are planned

    def go_on(self) -> CommitPlan | None:
        """Plan as much as a turn of the loop is to bear.

        Returns:
            The plan, to be carried out in this turn; None: it takes another one.

        Raises:
            SoftError: 406, see `CommitPlan`.
            ExchangeNotFound: the exchange of a publish is gone meanwhile.
            JournalFailed: a message is a duplicate, and the disk failed before.
        """
        until = self._clock.monotonic() + TURN_SECONDS
        while self._unsorted:
            if not self._unsorted[-1].sort_some():
                self._unsorted.pop()
            if self._clock.monotonic() >= until:
                return None
        while self._at < len(self._runs):
            self._plan_some()
            if self._clock.monotonic() >= until:
                return None
        if not self._is_current():
            self._begin()
            return None
        self._plan.check()
        return self._plan

    def _plan_some(self) -> None:
        run = self._runs[self._at]
        self._plan.exchanges.add(run.exchange.decode())
        rest = run.part(self._done, run.count - self._done) if self._done else run
        self._done += self._publisher.plan(rest, self._plan)
        if self._done == run.count:
            self._at += 1
            self._done = 0

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
        name = recipient.name
        return (self._vhost.delays.recipient(name) or self._vhost.queues.get(name)) is recipient
