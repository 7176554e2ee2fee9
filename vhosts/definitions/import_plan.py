"""What an import of definitions would do with each entry, found out before any of it is done."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from routelog.exchanges import Binding, Exchange, ExchangeInequivalent, check_equivalent
from routelog.log_backend import Lane, in_turns
from routelog.vhosts.arguments.policy import Policy
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.definitions.definitions import Definitions
from routelog.vhosts.definitions.definitions_import import DefinitionsImport
from routelog.vhosts.errors import QueueInequivalent, QueueLocked
from routelog.vhosts.people.imported_password import hash_fault
from routelog.vhosts.people.user_directory import UserDirectory
from routelog.vhosts.queues.queue_declaration import check_redeclared, with_type
from routelog.vhosts.stored.global_parameters import GlobalParameters
from routelog.vhosts.vhost.vhost import VirtualHost
from routelog.vhosts.vhost.vhost_directory import VhostDirectory

ENTRIES_MAX = 1_000  # that are named; all are counted


class Verdict(StrEnum):
    """What becomes of an entry."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    LEFT = "left"  # there is another one of this name, which stays as it is


class PlannedEntry(NamedTuple):
    """An entry, with what differs when another one stays."""

    verdict: Verdict
    kind: str
    vhost: str
    name: str
    reason: str = ""


@dataclass(slots=True)
class ImportPlan:
    """A plan.

    Attributes:
        counts: by kind, of each verdict.
        entries: those that are not unchanged, up to a limit.
        without_effect: as in `Definitions`.
    """

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    entries: list[PlannedEntry] = field(default_factory=list)
    without_effect: list[str] = field(default_factory=list)

    def note(self, entry: PlannedEntry) -> None:
        """Count an entry, and name it."""
        of_kind = self.counts.setdefault(entry.kind, dict.fromkeys(Verdict, 0))
        of_kind[entry.verdict] += 1
        if entry.verdict is not Verdict.UNCHANGED and len(self.entries) < ENTRIES_MAX:
            self.entries.append(entry)


async def planned_import(
    definitions: Definitions,
    vhosts: VhostDirectory,
    users: UserDirectory,
    parameters: GlobalParameters,
) -> ImportPlan:
    """Rehearse an import.

    Raises:
        InvalidDefinition: names what cannot be: such an import would be refused, and change nothing.
    """
    rehearsal = DefinitionsImport(vhosts, users, parameters)
    await rehearsal.rehearse(definitions)
    plan = ImportPlan(without_effect=definitions.without_effect)
    comparison = _Comparison(definitions, rehearsal, vhosts, users, parameters)
    async for entry in in_turns(comparison.entries(), Lane.OPERATORS):
        plan.note(entry)
    return plan


class _Comparison:
    def __init__(
        self,
        definitions: Definitions,
        rehearsal: DefinitionsImport,
        vhosts: VhostDirectory,
        users: UserDirectory,
        parameters: GlobalParameters,
    ) -> None:
        self._definitions = definitions
        self._rehearsal = rehearsal
        self._vhosts: dict[str, VirtualHost] = {each.name: each for each in vhosts.all()}
        self._default_types = {each.name: each.record.default_queue_type for each in vhosts.all()}
        self._users = users
        self._parameters = parameters

    def entries(self) -> Iterator[PlannedEntry]:
        yield from self._people()
        yield from self._rules()
        definitions = self._definitions
        for vhost, exchange in definitions.exchanges:
            yield self._exchange(vhost, exchange)
        for vhost, properties in definitions.queues:
            yield self._queue(vhost, properties)
        for vhost, binding in definitions.bindings:
            yield self._binding(vhost, binding)

    def _people(self) -> Iterator[PlannedEntry]:
        definitions, users = self._definitions, self._users
        there: object
        for record in definitions.vhosts:
            merged, known = self._rehearsal.merged(record), self._vhosts.get(record.name)
            self._default_types[record.name] = merged.default_queue_type
            there = None if known is None else known.record
            yield _compared("vhosts", record.name, record.name, there, merged)
        for user, limits in definitions.users:
            found = users.find(user.name)
            held = users.limits(user.name)
            there = None if found is None else (found, dict(held))
            said = dict(held if limits is None else limits)
            wanted = None if user.name in definitions.passwords else (user, said)
            planned = _compared("users", "", user.name, there, wanted)
            yield planned._replace(reason=hash_fault(user.password_hash))
        book = users.permissions
        for name, vhost, permission in definitions.permissions:
            there = book.of_user(name).get(vhost)
            yield _compared("permissions", vhost, name, there, permission)
        for name, vhost, topic in definitions.topic_permissions:
            rule = book.topics(name, vhost).get(topic.exchange)
            there = None if rule is None else rule.permission
            yield _compared("topic_permissions", vhost, f"{name}, {topic.exchange}", there, topic)

    def _rules(self) -> Iterator[PlannedEntry]:
        definitions = self._definitions
        there: object
        for vhost, limits in definitions.vhost_limits:
            known = self._vhosts.get(vhost)
            there = dict(known.limits) if known is not None and known.limits else None
            yield _compared("vhost_limits", vhost, vhost, there, dict(limits))
        for vhost, policy in definitions.policies:
            kind = "operator_policies" if policy.is_operator else "policies"
            yield _compared(
                kind, vhost, policy.name, self._policy_there(vhost, policy), _said(policy)
            )
        parameters = self._parameters.all()
        for name, value in definitions.global_parameters.items():
            yield _compared("global_parameters", "", name, parameters.get(name), value)
        for each in definitions.kept:
            known = self._vhosts.get(each.vhost)
            kept = None if known is None else known.kept.find(each.kind, each.entry)
            name = str(each.entry.get("name", each.entry.get("source", "")))
            yield _compared(f"{each.kind} without effect", each.vhost, name, kept, each.entry)

    def _policy_there(self, vhost: str, policy: Policy) -> object:
        known = self._vhosts.get(vhost)
        if known is None:
            return None
        for each in known.policies.book.all(operator=policy.is_operator):
            if each.name == policy.name:
                return _said(each)
        return None

    def _exchange(self, vhost: str, exchange: Exchange) -> PlannedEntry:
        known, verdict, reason = self._vhosts.get(vhost), Verdict.ADDED, ""
        if known is not None and known.routing.has_exchange(exchange.name):
            verdict = Verdict.UNCHANGED
            try:
                check_equivalent(known.routing.exchange(exchange.name), exchange, vhost)
            except ExchangeInequivalent as error:
                verdict, reason = Verdict.LEFT, str(error)
        return PlannedEntry(verdict, "exchanges", vhost, exchange.name, reason)

    def _queue(self, vhost: str, properties: QueueProperties) -> PlannedEntry:
        known, verdict, reason = self._vhosts.get(vhost), Verdict.ADDED, ""
        queue = None if known is None else known.queues.get(properties.name)
        if queue is not None:
            verdict = Verdict.UNCHANGED
            try:
                wanted = with_type(properties, self._default_types[vhost])
                check_redeclared(vhost, queue, wanted, None)
            except (QueueInequivalent, QueueLocked) as error:
                verdict, reason = Verdict.LEFT, str(error)
        return PlannedEntry(verdict, "queues", vhost, properties.name, reason)

    def _binding(self, vhost: str, binding: Binding) -> PlannedEntry:
        known = self._vhosts.get(vhost)
        is_there = known is not None and known.routing.has_binding(binding)
        verdict = Verdict.UNCHANGED if is_there else Verdict.ADDED
        name = f"{binding.source} to {binding.destination} ({binding.routing_key})"
        return PlannedEntry(verdict, "bindings", vhost, name)


def _compared(kind: str, vhost: str, name: str, there: object, wanted: object) -> PlannedEntry:
    verdict = Verdict.UNCHANGED if there == wanted else Verdict.CHANGED
    return PlannedEntry(Verdict.ADDED if there is None else verdict, kind, vhost, name)


def _said(policy: Policy) -> tuple[object, ...]:
    return policy.pattern, policy.apply_to, dict(policy.definition), policy.priority
