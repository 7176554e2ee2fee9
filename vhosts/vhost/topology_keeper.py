"""Keeps the exchanges and bindings of a vhost in the metadata store, and with them what exchanges remember.

Those that are not durable are there in a cluster only.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from routelog.exchanges import Binding, Exchange, RoutingTable, TopologyChange
from routelog.log_backend import Change, Lane, MetadataUnavailable, pause, unawaited
from routelog.vhosts.actor import acts
from routelog.vhosts.arguments.limits import MAX_BINDINGS, Limits, reached
from routelog.vhosts.counters.totals import VhostCounters
from routelog.vhosts.errors import (
    BindingLimitReached,
    VhostNotFound,
)
from routelog.vhosts.queues.event_feed import TellEvent
from routelog.vhosts.stored.topology_record import binding_change
from routelog.vhosts.vhost.definitions_budget import DefinitionsBudget, definition_bytes
from routelog.vhosts.vhost.hosted_queues import HostedQueues, QueueStore

log = logging.getLogger(__name__)

Durable = asyncio.Future[int] | None  # None: nothing has to become durable


class TopologyKeeper:
    """Stores what changes in a vhost's routing table.

    Args:
        follow: lets an exchange that has come go by its policies.
        tell: of what has changed.
        counters: of exchanges, which end with them.
        budget: counts what there is.
        limits: of the vhost.

    Attributes:
        bindings: how many there are.
        closed: the vhost is deleted.
    """

    def __init__(
        self,
        routing: RoutingTable,
        store: QueueStore,
        hosted: HostedQueues,
        follow: Callable[[str], None],
        tell: TellEvent,
        counters: VhostCounters,
        budget: DefinitionsBudget,
        limits: Callable[[], Limits],
    ) -> None:
        self._vhost = routing.vhost
        self._routing = routing
        self._store = store
        self._writer = store.writer
        self._hosted = hosted
        self._follow = follow
        self._tell = tell
        self._counters = counters
        self._budget = budget
        self._limits = limits
        self.bindings = 0
        self.closed = False
        self._submitted: asyncio.Future[int] | None = None  # the last change
        self._removing: asyncio.Task[int] | None = None

    def applied(self, change: TopologyChange) -> Durable:
        """Store a change, or take it back when that is refused.

        Raises:
            MetadataUnavailable: nothing more can be written; nothing has changed.
            BindingLimitReached, UserBindingLimitReached, DefinitionsLimitReached, VhostNotFound: nothing has
                changed.
        """
        if not change:
            return self.undecided()
        try:
            self._check(change)
            stored = self.store(change)
        except Exception:
            self._routing.undo(change)
            raise
        return self.whole(change, stored)

    def check_open(self) -> None:
        """Refuse what is new in a deleted vhost: a call of before may come late.

        Raises:
            VhostNotFound: it is deleted.
        """
        if self.closed:
            raise VhostNotFound(self._vhost)

    def _check(self, change: TopologyChange) -> None:
        bindings = change.bindings_added
        if bindings:
            count = self.bindings + len(bindings) - 1
            if (limit := reached(self._limits(), MAX_BINDINGS, count)) is not None:
                raise BindingLimitReached(self._vhost, limit)
        added: Sequence[Exchange | Binding] = (*change.exchanges_declared, *bindings)
        if added:
            self.check_open()
        for each in added:  # a call adds one
            self._budget.check(each.user, definition_bytes(each), len(bindings))

    def apply(self, change: TopologyChange) -> None:
        """Carry out a change of the routing table in all definitions that depend on it.

        A client has made it here, it was stored before, or another node leads and has committed it.
        """
        for exchange in change.exchanges_deleted:
            self._counters.exchanges.pop(exchange.name, None)
        for exchange in change.exchanges_declared:
            self._follow(exchange.name)
        self.bindings += len(change.bindings_added) - len(change.bindings_removed)
        self._budget.changed(
            (*change.exchanges_declared, *change.bindings_added),
            (*change.exchanges_deleted, *change.bindings_removed),
        )

    def whole(self, change: TopologyChange, stored: Durable) -> Durable:
        """What to await of a change that is stored, with what follows from it in later turns."""
        if not change.unfinished:
            return stored
        self.go_on()
        return unawaited(asyncio.ensure_future(self._whole(stored)))

    async def _whole(self, stored: Durable) -> int:
        revision = 0 if stored is None else await stored
        return max(revision, await self.all_removed())

    def go_on(self) -> asyncio.Task[int]:
        """Remove what bindings are left of what was deleted, in turns to come."""
        if self._removing is None or self._removing.done():
            with acts(None):  # it goes on for others, too
                self._removing = asyncio.ensure_future(self._remove_departed())
        return self._removing

    async def all_removed(self) -> int:
        """Return when nothing that was deleted has bindings any more: the revision that makes that durable."""
        return await asyncio.shield(self.go_on())  # many may await it, and one of them leave

    async def _remove_departed(self) -> int:
        # What is not stored goes all the same: nothing leads there, and a restart goes on with it.
        revision = 0
        while change := self._routing.remove_departed():
            try:
                durable = self.store(change)
                revision = revision if durable is None else await durable
            except MetadataUnavailable as error:
                log.error(
                    "bindings of what was deleted in '%s' stay stored: %s", self._vhost, error
                )
            await pause(Lane.UPKEEP)
        return revision

    def store(
        self,
        change: TopologyChange,
        more: Sequence[Change] = (),
        when_durable: Sequence[Callable[[], None]] = (),
    ) -> Durable:
        """Store a change, and others with it.

        Args:
            when_durable: called then, before whoever awaits it goes on.

        Raises:
            MetadataUnavailable: nothing more can be written.
        """
        keeps_all = self._store.keeps_all
        if keeps_all or _is_durable(change):
            self._writer.check()  # before anything is opened or closed
        changes, removals = list(more), list[Callable[[], None]]()
        for exchange in change.exchanges_declared:
            numbers, stored = self._hosted.new_exchange(exchange)
            changes += stored
            self._hosted.open_exchange(exchange, numbers)
        for exchange in change.exchanges_deleted:
            gone, removed = self._hosted.exchange_deleted(exchange)
            changes += gone
            removals += removed
        self.apply(change)
        changes += [
            binding_change(self._vhost, each, deleted=True)
            for each in change.bindings_removed
            if each.durable or keeps_all
        ]
        changes += [
            binding_change(self._vhost, each)
            for each in change.bindings_added
            if each.durable or keeps_all
        ]
        submitted = self._writer.submit(changes) if changes else None
        self._tell_of(change)
        if submitted is None:
            return None
        self._submitted = submitted
        removals += when_durable
        if removals:
            submitted.add_done_callback(partial(self._remove, removals))
        return submitted

    def _tell_of(self, change: TopologyChange) -> None:
        for what, exchanges in (
            ("exchange.created", change.exchanges_declared),
            ("exchange.deleted", change.exchanges_deleted),
        ):
            for x in exchanges:
                kept = {"durable": x.durable, "auto_delete": x.auto_delete, "internal": x.internal}
                self._tell(what, name=x.name, vhost=self._vhost, type=x.type, **kept)
        for what, bindings in (
            ("binding.created", change.bindings_added),
            ("binding.deleted", change.bindings_removed),
        ):
            for each in bindings:
                self._tell(
                    what,
                    source_name=each.source,
                    source_kind="exchange",
                    destination_name=each.destination,
                    destination_kind=each.destination_kind,
                    routing_key=each.routing_key,
                    arguments=dict(each.arguments),
                    vhost=self._vhost,
                )

    def undecided(self) -> Durable:
        """What an answer has to wait for that tells of what is there.

        Somebody else may just have made it, and a crash could forget it. Or another node has, which led before
        this one, and not all know it.
        """
        is_decided = self._submitted is None or self._submitted.done()
        return self._writer.known() if is_decided else self._submitted

    def _remove(self, removals: Sequence[Callable[[], None]], deleted: asyncio.Future[int]) -> None:
        if deleted.cancelled():
            return
        error = deleted.exception()
        if isinstance(error, Exception):
            self._hosted.logs.deletion_failed(error)
            return
        for remove in removals:
            remove()


def _is_durable(change: TopologyChange) -> bool:
    exchanges = (*change.exchanges_declared, *change.exchanges_deleted)
    bindings = (*change.bindings_added, *change.bindings_removed)
    return any(each.durable for each in exchanges) or any(each.durable for each in bindings)
