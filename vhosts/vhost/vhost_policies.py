"""Gives the policies of a virtual host to its queues and exchanges, whenever either changes."""

from collections.abc import Iterator, Mapping

from routelog.exchanges import RoutingTable
from routelog.log_backend import Durability, Lane, MetadataWriter, in_turns
from routelog.vhosts.arguments.pattern import MatchBudget
from routelog.vhosts.arguments.policy import ALTERNATE_EXCHANGE, Policy
from routelog.vhosts.arguments.queue_arguments import durability, retention
from routelog.vhosts.errors import VhostNotFound
from routelog.vhosts.publishing.internal_publisher import LOG_EXCHANGE
from routelog.vhosts.queues.event_feed import TellEvent, tell_nobody
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.stored.policy_book import PolicyBook
from routelog.vhosts.stored.policy_record import policy_change

TRIAL_SECONDS_MAX = 1.0  # for all names, 100,000 of them take an honest pattern 0.3 s


class VhostPolicies:
    """The policies of a vhost, and that its queues and exchanges go by them.

    Attributes:
        book: read by anyone, changed only here once it is loaded.
        closed: the vhost is deleted.
    """

    def __init__(
        self,
        vhost: str,
        writer: MetadataWriter,
        routing: RoutingTable,
        queues: Mapping[str, Queue],
        default_durability: Durability,
        tell: TellEvent = tell_nobody,
    ) -> None:
        self.book = PolicyBook(vhost, writer)
        self._vhost = vhost
        self._routing = routing
        self._queues = queues
        self._default_durability = default_durability
        self._tell = tell
        self.closed = False

    def recovered(self) -> None:
        """All exchanges are there: let them go by their policies; queues follow theirs one by one."""
        for exchange in self._routing.exchanges():
            self.follow_exchange(exchange.name)

    async def put(self, policy: Policy) -> None:
        """Add a policy, or replace the one of its name and kind.

        When this returns it is durable, and all queues and exchanges go by it.

        Raises:
            InvalidPolicy: the pattern takes too long for the names that are there; nothing has happened.
            VhostNotFound: the vhost is deleted meanwhile; nothing has happened.
            MetadataUnavailable: nothing more can be written; nothing has happened.
        """
        await self._try_out(policy)
        if self.closed:
            raise VhostNotFound(self._vhost)
        durable = self.book.change(policy_change(self._vhost, policy))
        self._tell("policy.set", name=policy.name, vhost=self._vhost, pattern=policy.pattern)
        await self._follow_all()
        await durable

    async def delete(self, name: str, *, operator: bool) -> None:
        """Delete a policy.

        Raises:
            PolicyNotFound: there is none of this name.
            MetadataUnavailable: nothing more can be written; nothing has happened.
        """
        policy = self.book.get(name, operator=operator)
        durable = self.book.change(policy_change(self._vhost, policy, deleted=True))
        self._tell("policy.cleared", name=name, vhost=self._vhost)
        await self._follow_all()
        await durable

    def follow_exchange(self, name: str) -> None:
        """Let an exchange go by its policy."""
        if name == LOG_EXCHANGE:
            return  # its alternate exchange would be a way around the tag that reading it takes
        policy = self.book.of_exchange(name)
        if policy is None:
            self._routing.set_policy(name, None, None)
            return
        alternate = policy.effective.get(ALTERNATE_EXCHANGE)
        alternate = alternate if isinstance(alternate, str) else None
        self._routing.set_policy(name, policy.name, alternate)

    def follow_queue(self, queue: Queue) -> None:
        """Let a queue go by its policies."""
        before = queue.effective.values
        queue.follow(*self.book.of_queue(queue.name, queue.type))
        values = queue.effective.values
        if values is before:
            return
        promised = durability(values, self._default_durability)
        kept = retention(values)
        for partition in queue.partitions:
            log = partition.log
            log.promise(promised)
            if log.retention is not None:
                log.retention = kept

    async def _try_out(self, policy: Policy) -> None:
        budget = MatchBudget(TRIAL_SECONDS_MAX)
        async for name in in_turns(self._names_for(policy), Lane.OPERATORS):
            policy.check_time(name, budget)

    def _names_for(self, policy: Policy) -> Iterator[str]:
        if policy.is_for_exchanges():
            yield from (exchange.name for exchange in self._routing.exchanges())
        for queue in self._queues.values():
            if policy.is_for_queues(queue.type):
                yield queue.name

    async def _follow_all(self) -> None:
        async for exchange in in_turns(self._routing.exchanges(), Lane.OPERATORS):
            if self._routing.has_exchange(exchange.name):
                self.follow_exchange(exchange.name)
        async for queue in in_turns(self._queues.values(), Lane.OPERATORS):
            if not queue.deleted:
                self.follow_queue(queue)
