"""The definitions of a virtual host at a node that does not lead: the leader changes them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Set
from copy import copy
from functools import partial
from typing import Any

from routelog.exchanges import Binding, DestinationKind, Exchange, QueueNotFound
from routelog.vhosts.actor import current_actor
from routelog.vhosts.arguments.json_arguments import encoded_arguments
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.errors import SessionLost
from routelog.vhosts.queues.queue_handle import Answer, QueueCounts, QueueHandle, decided, then
from routelog.vhosts.sessions.front_queues import FrontQueues
from routelog.vhosts.sessions.front_session import FrontSession
from routelog.vhosts.sessions.front_transaction import FrontTransaction
from routelog.vhosts.sessions.leader_link import LeaderLink
from routelog.vhosts.sessions.remote_queue import RemoteQueue, counts_of
from routelog.vhosts.vhost.vhost import VirtualHost
from routelog.vhosts.vhost.vhost_definitions import BindCheck, Check, Done

TRIES_MAX = 3  # a change may meet one leader's end, and the next one's


class FrontConnections:
    """The connections of this node's clients that the leader knows: those that may own exclusive queues.

    Args:
        node: name of this node, which begins the names of owners.
        first: number of the first connection: no earlier process of this node has given it.
    """

    def __init__(self, node: str, first: int) -> None:
        self._node = node
        self._next = first
        self._numbers: dict[object, int] = {}

    def add(self, connection: object) -> None:
        """A connection asks for an exclusive queue: it has a number from here on."""
        if connection not in self._numbers:
            self._numbers[connection] = self._next
            self._next += 1

    def number(self, connection: object) -> int:
        """The number of a connection; 0: it has none, or is closed."""
        return self._numbers.get(connection, 0)

    def owner_name(self, connection: object) -> str:
        """What the record of an exclusive queue calls its owner."""
        return f"{self._node}/{self.number(connection)}"

    def named(self, owners: Set[str]) -> set[object]:
        """The connections that are called so."""
        return {each for each in self._numbers if self.owner_name(each) in owners}

    def closed(self, connection: object) -> int:
        """Forget a connection; returns its number, or 0."""
        return self._numbers.pop(connection, 0)


class RemoteDefinitions:
    """See `VhostDefinitions`: what clients ask for is asked of the leader.

    Whatever is answered is known here, too: the leader answers when all nodes have applied it.
    """

    def __init__(
        self,
        vhost: VirtualHost,
        queues: FrontQueues,
        link: LeaderLink,
        connections: FrontConnections,
    ) -> None:
        self._vhost = vhost
        self._queues = queues
        self._link = link
        self._connections = connections
        self._check: Check = lambda: None

    def provided(self, check: Check) -> "RemoteDefinitions":
        """See `VhostDefinitions`."""
        check()
        provided = copy(self)
        provided._check = check
        return provided

    # -- exchanges and bindings

    def exchange_declared(self, name: str) -> Done:
        """See `VhostDefinitions`."""
        here = partial(self._vhost.exchange_declared, name)
        return self._change("exchange_declared", {"name": name}, here)

    def declare_exchange(self, exchange: Exchange) -> Done:
        """See `VhostDefinitions`."""
        said = {
            "name": exchange.name,
            "kind": exchange.type,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": encoded_arguments(exchange.arguments),
        }
        here = partial(self._vhost.declare_exchange, exchange)
        return self._change("declare_exchange", said, here)

    def delete_exchange(self, name: str, *, if_unused: bool) -> Done:
        """See `VhostDefinitions`."""
        here = partial(self._vhost.delete_exchange, name, if_unused=if_unused)
        said = {"name": name, "if_unused": if_unused}
        return self._change("delete_exchange", said, here, repeats=False)

    def bind(self, binding: Binding, check: BindCheck) -> Done:
        """See `VhostDefinitions`."""
        here = partial(self._vhost.bind, binding, check)
        first = partial(self._checked, binding, check)
        method = f"bind_{binding.destination_kind}"
        return self._change(method, _ends(binding), here, first=first)

    def unbind(self, binding: Binding, check: BindCheck) -> Done:
        """See `VhostDefinitions`."""
        here = partial(self._vhost.unbind, binding, check)
        first = partial(self._checked, binding, check)
        method = f"unbind_{binding.destination_kind}"
        return self._change(method, _ends(binding), here, first=first, repeats=False)

    async def _checked(self, binding: Binding, check: BindCheck, session: FrontSession) -> None:
        is_known = session.is_open and self._vhost.routing.has_exchange(binding.source)
        if binding.destination_kind == "queue":
            is_known = is_known and self._knows(binding.destination)
        if not is_known:
            await session.call("carried_out")  # see `_found`
        check(binding)

    def wait_for_free(self, kind: DestinationKind, name: str) -> Awaitable[None] | None:
        """See `VhostDefinitions`: the leader waits before it declares."""

    # -- queues

    def until_consumers_back(self) -> Done:
        """See `VhostDefinitions`: the leader waits, and has its front ask again."""

    def until_led(self) -> Done:
        """See `VhostDefinitions`."""
        if self._link.session.is_open:
            return None
        answered = self._called(lambda session: session.call("carried_out"), lambda: None)
        return asyncio.ensure_future(answered)

    def remote_transaction(self) -> FrontTransaction:
        """See `VhostDefinitions`."""
        return FrontTransaction(self._link.session)

    def queue(self, name: str, connection: object) -> Answer[QueueHandle]:
        """See `VhostDefinitions`: the leader is asked first, where others may have been told of another one."""
        if self._knows(name):
            return self._known(name, connection)
        find = partial(self._found, name, connection)
        here = partial(self._vhost.queue, name, connection)
        return asyncio.ensure_future(self._called(find, here))

    def _knows(self, name: str) -> bool:
        return self._link.session.is_open and name in self._queues

    async def _found(self, name: str, connection: object, session: FrontSession) -> RemoteQueue:
        if not self._knows(name):
            await session.call("carried_out")  # what others were told before that is known here
        return self._known(name, connection)

    def _known(self, name: str, connection: object) -> RemoteQueue:
        handle = self._queues.get(name)
        if handle is None:
            raise QueueNotFound(name, self._vhost.name)
        self.check_access(name, connection)
        return handle

    def check_access(self, name: str, connection: object) -> None:
        """See `VhostDefinitions`."""
        stored = self._vhost.stored.queues.get(name)
        if stored is not None:
            stored.check_access(self._vhost.name, self._connections.owner_name(connection))

    def queue_declared(self, name: str, connection: object) -> Answer[QueueCounts]:
        """See `VhostDefinitions`."""
        here = partial(self._vhost.queue_declared, name, connection)
        counts = partial(self._counts, name, connection)
        return asyncio.ensure_future(self._called(counts, here))

    async def _counts(self, name: str, connection: object, session: FrontSession) -> QueueCounts:
        handle = await self._found(name, connection, session)
        return await handle.counts()

    def declare_queue_of(
        self, properties: QueueProperties, connection: object, *, server_named: bool = False
    ) -> Answer[QueueCounts]:
        """See `VhostDefinitions`."""
        said = {
            "name": properties.name,
            "durable": properties.durable,
            "exclusive": properties.exclusive,
            "auto_delete": properties.auto_delete,
            "arguments": encoded_arguments(properties.arguments),
            "server_named": server_named,
        }
        if properties.exclusive:
            self._connections.add(connection)
        here = partial(
            self._vhost.declare_queue_of, properties, connection, server_named=server_named
        )
        declared = self._change("declare_queue", said, here, connection)
        return then(declared, counts_of)

    def delete_queue_of(
        self, name: str, connection: object, *, if_unused: bool, if_empty: bool
    ) -> Answer[int]:
        """See `VhostDefinitions`."""
        # Which one is meant, if it is known: that one may be deleted twice. An open session may have ended long
        # ago, so that a queue which is not known may be there.
        asked = self._link.session
        number = self._queues.number(name) if self._knows(name) else None
        conditions = {"if_unused": if_unused, "if_empty": if_empty}

        def refuse_another(there: int | None) -> None:
            # It was declared before the end of the session was seen, or since: nobody knows.
            if None not in (number, there) and there != number:
                raise SessionLost(f"queue '{name}'", asked.leader)

        async def first(session: FrontSession) -> None:
            if session is not asked and name in self._queues:
                refuse_another(self._queues.number(name))

        def here() -> Answer[int]:
            back = self._vhost.until_consumers_back() if if_unused else None
            if back is not None:
                return then(back, lambda _: here())
            self._check()
            queue = self._vhost.queues.get(name)
            refuse_another(None if queue is None else queue.number)
            return self._vhost.delete_queue_of(name, connection, number=number, **conditions)

        said = {"name": name, **conditions, "number": number}
        is_meant = number is not None
        return self._change("delete_queue", said, here, connection, first=first, repeats=is_meant)

    def delete_left(self, name: str) -> Done:
        """See `VhostDefinitions`: the leader sees that one leaves; what it was not given is to be back."""
        return self.carried_out()

    def consumers_left(self, name: str) -> Done:
        """See `VhostDefinitions`: the leader sees it."""

    def carried_out(self) -> Done:
        """See `VhostDefinitions`: the leader answers behind all that it was sent before."""
        session = self._link.session
        return decided(session.call("carried_out")) if session.is_open else None

    def connection_closed(self, connection: object) -> Done:
        """See `VhostDefinitions`."""
        number = self._connections.closed(connection)
        if not number:
            return None  # nothing goes with it
        return decided(self._link.session.call("connection_closed", self._vhost.name, number))

    # -- the leader

    def _change(
        self,
        method: str,
        said: Mapping[str, object],
        here: Callable[[], Answer[Any]],
        connection: object = None,
        *,
        first: Callable[[FrontSession], Awaitable[None]] | None = None,
        repeats: bool = True,
    ) -> "asyncio.Future[Any]":
        # `here` does the same at this node, when it leads. What `repeats` not is asked of one leader only.
        actor = current_actor()
        who = ["", "", ""] if actor is None else [actor.user, actor.address, actor.door]
        number = self._connections.number(connection)
        arguments = method, self._vhost.name, who, number, dict(said)

        async def ask(session: FrontSession) -> Any:
            if first is not None:
                await first(session)
            return await session.call(*arguments)

        def may_repeat(session: FrontSession) -> bool:
            # What a connection declares for itself behind its end, nobody would delete.
            # A leader that is still there has done nothing: it asks to be asked again.
            is_closed = self._connections.number(connection) < number
            return not is_closed and (repeats or session.is_open or not session.was_open)

        return asyncio.ensure_future(self._called(ask, here, may_repeat))

    async def _called(
        self,
        ask: Callable[[FrontSession], Awaitable[Any]],
        here: Callable[[], Answer[Any]],
        may_repeat: Callable[[FrontSession], bool] = lambda session: True,
    ) -> Any:
        """Call the leader, and the next one when that is lost: what is declared twice is there once.

        What was removed, others may have made since: it is not removed again. When a session was not opened in
        time, no leader is waited for once more. What its client may do is checked behind each wait, by what the
        next leader has told: others may have been answered that he may not.
        """
        has_waited = False
        for tries_left in reversed(range(TRIES_MAX)):
            session = self._link.session
            try:
                if not session.is_open:
                    await session.call("carried_out")
                    has_waited = True
                if has_waited:
                    self._check()
                return await ask(session)
            except SessionLost:
                has_waited = True
                if not may_repeat(session):
                    raise
                if self._vhost.definitions is self._vhost:  # this node leads
                    break
                if not (session.was_open and tries_left):
                    raise
        self._check()
        answer = here()
        return await answer if asyncio.isfuture(answer) else answer


def _ends(binding: Binding) -> Mapping[str, object]:
    return {
        "destination": binding.destination,
        "source": binding.source,
        "routing_key": binding.routing_key,
        "arguments": encoded_arguments(binding.arguments),
    }
