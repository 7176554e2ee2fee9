"""Carries out definitions: first all of them on paper, so that bad ones change nothing."""

from asyncio import to_thread
from collections import Counter, deque
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from routelog.exchanges import RESERVED_PREFIX, Binding, Exchange, RoutingError, RoutingTable
from routelog.log_backend import Lane, in_turns
from routelog.vhosts.actor import Actor, acts, current_actor
from routelog.vhosts.arguments.limits import MAX_BINDINGS, MAX_QUEUES, Limits, reached
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.definitions.definitions import RESERVED, Definitions
from routelog.vhosts.errors import (
    BindingLimitReached,
    InvalidDefinition,
    QueueLimitReached,
    VhostNotFound,
)
from routelog.vhosts.people.password import verify_password
from routelog.vhosts.people.user_directory import UserDirectory
from routelog.vhosts.queues.queue_declaration import check_declaration, check_enabled, with_type
from routelog.vhosts.queues.queue_handle import pending
from routelog.vhosts.stored.global_parameters import GlobalParameters
from routelog.vhosts.stored.kept_definitions import check_room
from routelog.vhosts.stored.topology_record import VhostRecord
from routelog.vhosts.stored.user import User
from routelog.vhosts.vhost.definitions_budget import definition_bytes
from routelog.vhosts.vhost.vhost import VirtualHost
from routelog.vhosts.vhost.vhost_directory import VhostDirectory, check_vhost

_Entry = TypeVar("_Entry")


class DefinitionsImport:
    """Brings definitions into a node; what is there already is kept, or replaced as in RabbitMQ.

    Users, permissions, policies, limits and parameters are replaced by those of their name;
    exchanges, queues and bindings that exist stay as they are, and so do a user's limits if none are said.
    """

    def __init__(
        self, vhosts: VhostDirectory, users: UserDirectory, parameters: GlobalParameters
    ) -> None:
        self._vhosts = vhosts
        self._users = users
        self._parameters = parameters
        self._done: Counter[str] = Counter()  # entries of each kind

    async def run(self, definitions: Definitions) -> None:
        """Check everything, then carry it out; durable when this returns.

        The topology is taken out of the definitions on the way.

        Raises:
            InvalidDefinition: names what cannot be; nothing has changed.
            AuthenticationBusy: too many others are logging in; nothing has changed.
            MetadataUnavailable: the store takes no more; what came before is there.
            Others: somebody deleted meanwhile what an entry needs.
        """
        counts = definitions.counts()
        actor = current_actor() or Actor("", "", "start")
        with acts(actor):
            await self.rehearse(definitions)
            await self._hash(definitions)
            try:
                with actor.imports():
                    await self._carry_out(definitions)
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
                self._vhosts.events.note("definitions.failed", cause=said, **self._done)
                raise
            self._vhosts.events.note("definitions.imported", **counts)
            for event, entries in (
                ("definitions.kept", definitions.without_effect),
                ("definitions.skipped", definitions.skipped),
            ):
                async for what in in_turns(entries, Lane.OPERATORS):
                    self._vhosts.events.note(event, entry=what)

    async def _carry_out(self, definitions: Definitions) -> None:
        await self._people(definitions)
        for vhost, policy in self._each("policies", definitions.policies):
            await self._vhosts.get(vhost).policies.put(policy)
        for name, value in self._each("global_parameters", definitions.global_parameters.items()):
            await self._parameters.put(name, value)
        for kept in self._each("kept", definitions.kept):
            await self._vhosts.get(kept.vhost).kept.put(kept.kind, kept.entry)
        await self._topology(definitions)

    def _each(self, kind: str, entries: Iterable[_Entry]) -> Iterator[_Entry]:
        for entry in entries:
            yield entry
            self._done[kind] += 1

    async def _hash(self, definitions: Definitions) -> None:
        # Before anything changes: others may be logging in, too many to wait for.
        users: list[tuple[User, Limits | None]] = []
        for user, limits in definitions.users:
            password = definitions.passwords.get(user.name)
            if password is not None:
                user = replace(user, password_hash=await self._hash_of(user.name, password))
            users.append((user, limits))
        definitions.users = users

    async def _people(self, definitions: Definitions) -> None:
        for record in self._each("vhosts", definitions.vhosts):
            await self._vhosts.put(self.merged(record))
        for name, limits in self._each("vhost_limits", definitions.vhost_limits):
            await self._vhosts.set_limits(name, limits)
        for user, of_user in self._each("users", definitions.users):
            await self._users.put_user(user)
            if of_user is not None:
                await self._users.set_limits(user.name, of_user)
        for name, vhost, permission in self._each("permissions", definitions.permissions):
            await self._users.set_permissions(name, vhost, permission)
        for name, vhost, topic in self._each("topic_permissions", definitions.topic_permissions):
            await self._users.set_topic_permission(name, vhost, topic)

    async def _hash_of(self, name: str, password: str) -> str:
        # The same password keeps its hash: a document may be imported many times.
        known = self._users.find(name)
        content = password.encode()
        if known is not None and await to_thread(verify_password, known.password_hash, content):
            return known.password_hash
        return await self._users.hash_password(content)

    def merged(self, record: VhostRecord) -> VhostRecord:
        """What becomes of a vhost of which a document says this."""
        # A document of RabbitMQ 3.10 says nothing but names: that takes nothing away.
        try:
            known = self._vhosts.get(record.name).record
        except VhostNotFound:
            return record
        return VhostRecord(
            record.name,
            record.description or known.description,
            record.tags or known.tags,
            record.default_queue_type or known.default_queue_type,
            known.limits,
        )

    async def _topology(self, definitions: Definitions) -> None:
        durable: deque[Awaitable[object] | None] = deque()
        async for vhost_name, exchange in in_turns(
            self._each("exchanges", _taken(definitions.exchanges)), Lane.OPERATORS
        ):
            vhost = self._vhosts.get(vhost_name)
            await vhost.until_free("exchange", exchange.name)
            if not vhost.routing.has_exchange(exchange.name):
                durable.append(vhost.restore_exchange(exchange))
        async for vhost_name, properties in in_turns(
            self._each("queues", _taken(definitions.queues)), Lane.OPERATORS
        ):
            vhost = self._vhosts.get(vhost_name)
            await vhost.until_free("queue", properties.name)
            if properties.name not in vhost.queues:
                declared = vhost.declare_queue(properties, None, server_named=True)
                durable.append(pending(declared))
        await _all(durable)  # a durable queue can be bound from then on
        async for vhost_name, binding in in_turns(
            self._each("bindings", _taken(definitions.bindings)), Lane.OPERATORS
        ):
            durable.append(self._vhosts.get(vhost_name).restore_binding(binding))
        await _all(durable)

    # -- on paper

    async def rehearse(self, definitions: Definitions) -> None:
        """Check everything on paper.

        Raises:
            InvalidDefinition: names all that cannot be.
        """
        problems, unread = definitions.problems, definitions.unread
        for record in definitions.vhosts:
            with problems.of(f"vhosts '{record.name}'"):
                check_vhost(self.merged(record))
        users = {user.name for user in self._users.users()}
        users |= {user.name for user, _ in definitions.users}
        users |= {name for kind, _, name in unread if kind == "users"}
        stages = self._stages(definitions)
        for kind, entries in (
            ("permissions", [each[:2] for each in definitions.permissions]),
            ("topic_permissions", [each[:2] for each in definitions.topic_permissions]),
        ):
            for user, vhost in entries:
                with problems.of(f"{kind} of '{user}' in '{vhost}'"):
                    _stage(stages, vhost)
                    if user not in users:
                        raise InvalidDefinition(f"no user '{user}'")
        for vhost, policy in definitions.policies:
            with problems.of(f"policies '{policy.name}'"):
                _stage(stages, vhost)
        with problems.of("global_parameters"):
            self._parameters.check_room(definitions.global_parameters)
        real = {vhost.name: vhost for vhost in self._vhosts.all()}
        for vhost in {each.vhost for each in definitions.kept}:
            with problems.of("entries without effect"):
                _stage(stages, vhost)
                kept = [(each.kind, each.entry) for each in definitions.kept if each.vhost == vhost]
                check_room(vhost, real[vhost].kept if vhost in real else None, kept)
        for vhost, limits in definitions.vhost_limits:
            with problems.of(f"limits of '{vhost}'"):
                _stage(stages, vhost).limits = limits
        await self._rehearse_topology(definitions, stages)
        problems.check()

    async def _rehearse_topology(
        self, definitions: Definitions, stages: Mapping[str, "_Stage"]
    ) -> None:
        problems = definitions.problems
        async for vhost, exchange in in_turns(definitions.exchanges, Lane.OPERATORS):
            with problems.of(f"exchanges '{exchange.name}'"):
                _stage(stages, vhost).exchange(exchange)
        async for vhost, properties in in_turns(definitions.queues, Lane.OPERATORS):
            with problems.of(f"queues '{properties.name}'"):
                check_declaration(vhost, properties, has_remote=self._vhosts.has_remote)
                _stage(stages, vhost).queue(properties)
        kept: list[tuple[str, Binding]] = []
        async for vhost, binding in in_turns(definitions.bindings, Lane.OPERATORS):
            place = f"bindings from '{binding.source}' to '{binding.destination}'"
            with problems.of(place):
                stage = _stage(stages, vhost)
                if stage.lacks_reserved(binding):
                    definitions.skipped.append(f"{place}: {RESERVED}")
                else:
                    stage.binding(binding)
                    kept.append((vhost, binding))
        definitions.bindings = kept
        size = sum(stage.added_bytes for stage in stages.values())
        count = sum(stage.added_bindings for stage in stages.values())
        actor = current_actor()
        with problems.of("definitions"):
            self._vhosts.budget.check("" if actor is None else actor.user, size, count)
        async for vhost, properties in in_turns(definitions.queues, Lane.OPERATORS):
            if vhost in stages:
                stages[vhost].forget(properties.name)  # all at once would be long to let go of

    def _stages(self, definitions: Definitions) -> dict[str, "_Stage"]:
        queues_max = self._vhosts.queues_max
        real = {vhost.name: vhost for vhost in self._vhosts.all()}
        names = real.keys() | {record.name for record in definitions.vhosts}
        names |= {name for kind, _, name in definitions.unread if kind == "vhosts"}
        disabled = self._vhosts.disabled_types
        stages = {name: _Stage(name, real.get(name), queues_max, disabled) for name in names}
        for record in definitions.vhosts:
            stages[record.name].default_type = self.merged(record).default_queue_type
        for kind, vhost, name in definitions.unread:
            if vhost in stages:
                stages[vhost].expect(kind, name)
        return stages


class _Stage:
    # A vhost on paper: what the definitions would make of it.
    def __init__(
        self, name: str, real: VirtualHost | None, queues_max: int, disabled_types: Collection[str]
    ) -> None:
        self.limits: Limits = {} if real is None else real.limits
        self.default_type = None if real is None else real.record.default_queue_type
        self._name = name
        self._real = real
        self._queues_max = queues_max
        self._disabled_types = disabled_types
        self._queues = 0 if real is None else len(real.queues)
        self._bindings = 0 if real is None else real.binding_count
        self.added_bytes = self.added_bindings = 0
        self._paper = RoutingTable(name)

    def exchange(self, exchange: Exchange) -> None:
        if not self._is_real_exchange(exchange.name) and self._paper.restore_exchange(exchange):
            self.added_bytes += definition_bytes(exchange)

    def queue(self, properties: QueueProperties) -> None:
        if self._paper.has_queue(properties.name):
            return
        if not self._is_real_queue(properties.name):
            typed = with_type(properties, self.default_type)
            check_enabled(self._name, typed, self._disabled_types)
            limits = {MAX_QUEUES: self._queues_max, **self.limits}
            limit = reached(limits, MAX_QUEUES, self._queues)
            if limit is not None:
                raise QueueLimitReached(properties.name, self._name, limit)
            self._queues += 1
            self.added_bytes += definition_bytes(properties)
        self._paper.add_queue(properties.name, durable=properties.durable)

    def expect(self, kind: str, name: str) -> None:
        """Something would be there, were its entry right: what needs it is not wrong, too."""
        with suppress(RoutingError):
            if kind == "exchanges":
                self._paper.restore_exchange(Exchange(name, "direct"))
            elif kind == "queues":
                self._paper.add_queue(name, durable=True)

    def lacks_reserved(self, binding: Binding) -> bool:
        """Whether an end of a binding has a name of the broker's own, and is not there."""
        ends = [(binding.source, "exchange"), (binding.destination, binding.destination_kind)]
        for name, kind in ends:
            has_queue = kind == "queue" and self._is_real_queue(name)
            has_exchange = kind == "exchange" and (
                self._is_real_exchange(name) or self._paper.has_exchange(name)
            )
            if name.startswith(RESERVED_PREFIX) and not (has_queue or has_exchange):
                return True
        return False

    def forget(self, queue: str) -> None:
        self._paper.remove_queue(queue)

    def binding(self, binding: Binding) -> None:
        for name in (binding.source, binding.destination):
            if self._real is not None and self._is_real_exchange(name):
                self._paper.restore_exchange(self._real.routing.exchange(name))
        if self._is_real_queue(binding.destination) and not self._paper.has_queue(
            binding.destination
        ):
            self._paper.add_queue(binding.destination, durable=True)
        is_added = bool(self._paper.bind(binding))
        if is_added and not (self._real is not None and self._real.routing.has_binding(binding)):
            limit = reached(self.limits, MAX_BINDINGS, self._bindings + self.added_bindings)
            if limit is not None:
                raise BindingLimitReached(self._name, limit)
            self.added_bindings += 1
            self.added_bytes += definition_bytes(binding)

    def _is_real_exchange(self, name: str) -> bool:
        return self._real is not None and self._real.routing.has_exchange(name)

    def _is_real_queue(self, name: str) -> bool:
        return self._real is not None and name in self._real.queues


def _stage(stages: Mapping[str, _Stage], vhost: str) -> _Stage:
    stage = stages.get(vhost)
    if stage is None:
        raise InvalidDefinition(f"vhost {vhost} not found")
    return stage


def _taken(entries: list[_Entry]) -> Iterator[_Entry]:
    # They are let go of one by one.
    entries.reverse()
    while entries:
        yield entries.pop()


async def _all(changes: deque[Awaitable[object] | None]) -> None:
    # One after the other, and let go of then: thousands at once would hold the loop.
    failure: Exception | None = None
    async for _ in in_turns(range(len(changes)), Lane.OPERATORS):
        if (change := changes.popleft()) is not None:
            try:
                await change
            except Exception as error:
                failure = failure or error
    if failure is not None:
        raise failure
