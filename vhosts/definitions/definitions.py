"""Definitions: users, vhosts and topology as one document, in RabbitMQ's form, read and checked."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec

from routelog.exchanges import (
    DEFAULT_EXCHANGE,
    NODE_EXCHANGES,
    PREDECLARED,
    RESERVED_PREFIX,
    Binding,
    Exchange,
    RoutingError,
    check_name,
    type_table,
)
from routelog.log_backend import Lane, in_turns
from routelog.vhosts.arguments.json_arguments import checked_arguments
from routelog.vhosts.arguments.limits import USER_LIMITS, VHOST_LIMITS, Limits, checked_limits
from routelog.vhosts.arguments.policy import Policy
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.definitions.definition_entries import (
    BindingEntry,
    ExchangeEntry,
    GlobalParameterEntry,
    ParameterEntry,
    PermissionEntry,
    PolicyEntry,
    QueueEntry,
    TopicPermissionEntry,
    UserEntry,
    VhostEntry,
)
from routelog.vhosts.errors import (
    BindingLimitReached,
    DefinitionsLimitReached,
    InvalidDefinition,
    InvalidLimit,
    InvalidPolicy,
    InvalidRequest,
    QueueLimitReached,
    UserBindingLimitReached,
)
from routelog.vhosts.queues.queue_declaration import check_declaration
from routelog.vhosts.stored.global_parameters import check_parameter
from routelog.vhosts.stored.kept_definitions import (
    BINDINGS,
    EXCHANGES,
    PARAMETERS,
    check_kept,
    exchanges_of,
)
from routelog.vhosts.stored.permission import Permission, TopicPermission, TopicRule
from routelog.vhosts.stored.topology_record import VhostRecord
from routelog.vhosts.stored.user import User

OPERATOR_POLICY = "operator_policy"  # components of parameters
VHOST_LIMITS_COMPONENT = "vhost-limits"
_OBJECTS = frozenset(("arguments", "limits", "metadata"))

# How an entry can be wrong.
WRONG = (
    InvalidRequest,
    QueueLimitReached,
    BindingLimitReached,
    UserBindingLimitReached,
    DefinitionsLimitReached,
    RoutingError,
    msgspec.ValidationError,
)

# The three ways to ask for it: the command, the HTTP API, the configuration.
ADVICE = '--keep-unknown, ?unknown=keep or definitions_unknown = "keep" keep it without effect'

EXCHANGE_TYPES = frozenset(type_table(lambda count: 0))

RESERVED = f"names that begin with {RESERVED_PREFIX} are the broker's"
PROBLEMS_MAX = 100  # that are said: who has more mends these first

# What is said of definitions beside their entries.
_NO_KINDS = frozenset(("passwords", "without_effect", "skipped", "problems", "unread"))
_PREDECLARED = frozenset(each.name for each in PREDECLARED + NODE_EXCHANGES)


class UnknownDefinition(Exception):
    """Something that RabbitMQ or its plugins have, and this broker has not."""


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """An entry that means nothing here, as the document has it."""

    vhost: str
    kind: str
    entry: Mapping[str, Any]


class Problems:
    """What is wrong with a document: each problem with its place, up to a limit."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._more = 0

    def note(self, text: str) -> None:
        """Add one."""
        if len(self._texts) < PROBLEMS_MAX:
            self._texts.append(text)
        else:
            self._more += 1

    @contextmanager
    def of(self, place: str) -> Iterator[None]:
        """Note what is wrong with an entry, instead of raising it."""
        try:
            yield
        except UnknownDefinition as error:
            self.note(f"{place}: {error}; {ADVICE}")
        except WRONG as error:
            self.note(f"{place}: {error}")

    def check(self) -> None:
        """Refuse a document that has any.

        Raises:
            InvalidDefinition: it has.
        """
        if self._texts:
            more = [f"and {self._more} more"] if self._more else []
            raise InvalidDefinition(*self._texts, *more)


@dataclass(slots=True)
class Definitions:
    """What a document says; what belongs to a vhost or a user stands beside its name.

    Attributes:
        users: with their limits; None: the document says nothing of them.
        kept: entries without effect.
        passwords: of users who come with one; they are hashed when the users are made.
        without_effect: what has none, in words: these entries, and keys of policies.
        skipped: entries whose names are the broker's own, in words.
        problems: entries that cannot be.
        unread: what these would have declared: a kind, a vhost (of users and vhosts none), a name.
    """

    users: list[tuple[User, Limits | None]] = field(default_factory=list)
    vhosts: list[VhostRecord] = field(default_factory=list)
    permissions: list[tuple[str, str, Permission]] = field(default_factory=list)
    topic_permissions: list[tuple[str, str, TopicPermission]] = field(default_factory=list)
    policies: list[tuple[str, Policy]] = field(default_factory=list)
    vhost_limits: list[tuple[str, Limits]] = field(default_factory=list)
    global_parameters: dict[str, object] = field(default_factory=dict)
    exchanges: list[tuple[str, Exchange]] = field(default_factory=list)
    queues: list[tuple[str, QueueProperties]] = field(default_factory=list)
    bindings: list[tuple[str, Binding]] = field(default_factory=list)
    kept: list[KeptEntry] = field(default_factory=list)
    passwords: dict[str, str] = field(default_factory=dict, repr=False)
    without_effect: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    problems: Problems = field(default_factory=Problems)
    unread: set[tuple[str, str, str]] = field(default_factory=set)

    def counts(self) -> dict[str, int]:
        """How many entries there are of each kind, those without effect under `kept`."""
        kinds = [each.name for each in fields(self) if each.name not in _NO_KINDS]
        return {kind: len(getattr(self, kind)) for kind in kinds}


def read_definitions(
    document: object, vhost: str | None = None, *, keep_unknown: bool = False
) -> Definitions:
    """The definitions of a document, each of them checked on its own.

    What cannot be is among their problems: importing them is refused.

    Args:
        document: as decoded from JSON. Keys that are not known are passed over.
        vhost: where everything belongs that does not say it, or says another one.
        keep_unknown: what RabbitMQ and its plugins have and this broker has not is kept without effect.

    Raises:
        InvalidDefinition: it is no object.
    """
    reader = _Reader(document, vhost, keep_unknown)
    for _ in reader.steps():
        pass
    return reader.read


async def read_definitions_in_turns(
    document: object, vhost: str | None = None, *, keep_unknown: bool = False
) -> Definitions:
    """See `read_definitions`; others have their turn meanwhile.

    Args:
        document: its entries are taken out, as all of them at once would be long to let go of.
    """
    reader = _Reader(document, vhost, keep_unknown, takes=True)
    async for _ in in_turns(reader.steps(), Lane.OPERATORS):
        pass
    return reader.read


class _Reader:
    def __init__(
        self, document: object, vhost: str | None, keep_unknown: bool, *, takes: bool = False
    ) -> None:
        if not isinstance(document, dict):
            raise InvalidDefinition("the document: it is no JSON object")
        self._document: Mapping[str, Any] = document
        self._vhost = vhost
        self._keep_unknown = keep_unknown
        self._takes = takes
        self._place_of_entry = ""  # of the one that is looked at
        self._entry: Any = None
        self._unknown_exchanges: set[tuple[str, str]] = set()  # by vhost
        self.read = Definitions()

    def steps(self) -> Iterator[None]:
        # One entry each.
        kinds: list[tuple[str, type[Any], Callable[[Any], None]]] = [
            ("users", UserEntry, self._user),
            ("vhosts", VhostEntry, self._vhost_entry),
            ("permissions", PermissionEntry, self._permission),
            ("topic_permissions", TopicPermissionEntry, self._topic_permission),
            ("parameters", ParameterEntry, self._parameter),
            ("global_parameters", GlobalParameterEntry, self._global_parameter),
            ("policies", PolicyEntry, self._policy),
            ("exchanges", ExchangeEntry, self._exchange),
            ("queues", QueueEntry, self._queue),
            ("bindings", BindingEntry, self._binding),
        ]
        ours = ("parameters", "policies", "exchanges", "queues", "bindings")
        for kind, entry_type, take in kinds:
            if self._vhost is None or kind in ours:
                for place, content in self._entries(kind):
                    self._place_of_entry, self._entry = place, content
                    taken = False
                    with self.read.problems.of(place):
                        take(msgspec.convert(_with_objects(content), entry_type))
                        taken = True
                    if not taken and isinstance(content, dict):
                        self._note_unread(kind, content)
                    yield

    def _entries(self, kind: str) -> Iterator[tuple[str, Any]]:
        entries = self._document.get(kind, [])
        if not isinstance(entries, list):
            self.read.problems.note(f"{kind}: it is no array")
            return
        for at, content in enumerate(entries):
            if self._takes:
                entries[at] = None
            name = content.get("name", content.get("user", "")) if isinstance(content, dict) else ""
            yield (f"{kind}[{at}] '{name}'" if name else f"{kind}[{at}]"), content

    def _note_unread(self, kind: str, content: Mapping[str, Any]) -> None:
        name, vhost = content.get("name"), self._vhost or content.get("vhost", "")
        if isinstance(name, str) and isinstance(vhost, str):
            self.read.unread.add((kind, "" if kind in ("users", "vhosts") else vhost, name))

    def _skips(self, name: str) -> bool:
        # As in RabbitMQ: what the broker made itself is made again, or was somebody's for a moment.
        is_reserved = name.startswith(RESERVED_PREFIX)
        if is_reserved and name not in _PREDECLARED:
            self.read.skipped.append(f"{self._place_of_entry}: {RESERVED}")
        return is_reserved

    def _user(self, entry: UserEntry) -> None:
        user, limits = entry.user(entry.name), entry.limits
        checked = None if limits is None else checked_limits(USER_LIMITS, limits)
        self.read.users.append((user, checked))
        if entry.password is not None:
            self.read.passwords[entry.name] = entry.password
        else:
            self.read.passwords.pop(entry.name, None)

    def _vhost_entry(self, entry: VhostEntry) -> None:
        record = entry.record()
        check_name("vhost", record.name)
        self.read.vhosts.append(record)

    def _permission(self, entry: PermissionEntry) -> None:
        permission = Permission(entry.configure, entry.write, entry.read)
        self.read.permissions.append((entry.user, entry.vhost, permission))

    def _topic_permission(self, entry: TopicPermissionEntry) -> None:
        permission = TopicPermission(entry.exchange, entry.write, entry.read)
        TopicRule(permission, entry.user, entry.vhost)
        self.read.topic_permissions.append((entry.user, entry.vhost, permission))

    def _parameter(self, entry: ParameterEntry) -> None:
        vhost = self._place(entry.vhost)
        if entry.component == VHOST_LIMITS_COMPONENT:
            limits = _object(entry.value)
            if not isinstance(limits, dict):
                raise InvalidLimit(entry.name, "its value is no object")
            self.read.vhost_limits.append((vhost, checked_limits(VHOST_LIMITS, limits)))
        elif entry.component == OPERATOR_POLICY:
            if not isinstance(entry.value, dict):
                raise InvalidPolicy(entry.name, "value", "it is no object")
            policy = msgspec.convert({**entry.value, "name": entry.name}, PolicyEntry)
            self._take_policy(vhost, policy, is_operator=True)
        else:
            what = f"component {entry.component}: there is no such component"
            self._keep(PARAMETERS, vhost, what)

    def _keep(self, kind: str, vhost: str, what: str) -> None:
        # The entry that is looked at, as it stands there: it may say more than we know.
        self._unknown(what)
        entry = {**self._entry, "vhost": vhost}
        check_kept(entry)
        self.read.kept.append(KeptEntry(vhost, kind, entry))

    def _unknown(self, what: str) -> None:
        if not self._keep_unknown:
            raise UnknownDefinition(what)
        self.read.without_effect.append(f"{self._place_of_entry}: {what}")

    def _take_policy(self, vhost: str, entry: PolicyEntry, *, is_operator: bool = False) -> None:
        policy = entry.policy(is_operator=is_operator, keeps_unknown=True)
        if unknown := policy.unknown_keys():
            self._unknown(f"policy '{entry.name}': not known: {', '.join(unknown)}")
        else:
            policy = replace(policy, keeps_unknown=False)
        self.read.policies.append((vhost, policy))

    def _global_parameter(self, entry: GlobalParameterEntry) -> None:
        check_parameter(entry.name, entry.value)
        self.read.global_parameters[entry.name] = entry.value

    def _policy(self, entry: PolicyEntry) -> None:
        self._take_policy(self._place(entry.vhost), entry)

    def _exchange(self, entry: ExchangeEntry) -> None:
        if entry.name != DEFAULT_EXCHANGE and not self._skips(entry.name):
            check_name("exchange", entry.name)
            checked_arguments(entry.arguments)
            vhost = self._place(entry.vhost)
            if entry.type in EXCHANGE_TYPES:
                self.read.exchanges.append((vhost, entry.exchange()))
            else:
                self._keep(EXCHANGES, vhost, f"unknown exchange type '{entry.type}'")
                self._unknown_exchanges.add((vhost, entry.name))

    def _queue(self, entry: QueueEntry) -> None:
        if self._skips(entry.name):
            return
        vhost = self._place(entry.vhost)
        properties = entry.properties()
        check_name("queue", entry.name)
        checked_arguments(entry.arguments)
        check_declaration(vhost, properties)
        self.read.queues.append((vhost, properties))

    def _binding(self, entry: BindingEntry) -> None:
        checked_arguments(entry.arguments)
        if entry.source == DEFAULT_EXCHANGE:
            return
        vhost = self._place(entry.vhost)
        ends = exchanges_of(self._entry)
        unknown = [end for end in sorted(ends) if (vhost, end) in self._unknown_exchanges]
        if unknown:
            self._keep(BINDINGS, vhost, f"exchange '{unknown[0]}' is kept without effect")
        else:
            self.read.bindings.append((vhost, entry.binding()))

    def _place(self, vhost: str) -> str:
        place = self._vhost or vhost
        if not place:
            raise InvalidDefinition("vhost: it is not said")
        return place


def _with_objects(content: Any) -> Any:
    if not isinstance(content, dict):
        return content
    return content | {name: _object(content[name]) for name in _OBJECTS & content.keys()}


def _object(value: Any) -> Any:
    # RabbitMQ writes an object that has become empty as an empty array.
    return {} if value == [] else value
