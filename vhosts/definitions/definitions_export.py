"""Writes definitions, a piece at a time: a node may have a hundred thousand queues."""

from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice

import msgspec

from routelog.exchanges import DEFAULT_EXCHANGE
from routelog.log_backend import Lane, pause
from routelog.vhosts.arguments.json_arguments import plain_arguments
from routelog.vhosts.arguments.policy import Policy
from routelog.vhosts.definitions.definition_entries import ARGON2ID
from routelog.vhosts.definitions.definitions import OPERATOR_POLICY, VHOST_LIMITS_COMPONENT
from routelog.vhosts.people.imported_password import split_imported_hash
from routelog.vhosts.people.user_directory import UserDirectory
from routelog.vhosts.stored.global_parameters import GlobalParameters
from routelog.vhosts.stored.kept_definitions import BINDINGS, EXCHANGES, PARAMETERS
from routelog.vhosts.stored.permission import Permission, TopicPermission
from routelog.vhosts.stored.topology_record import VhostRecord
from routelog.vhosts.stored.user import User
from routelog.vhosts.vhost.vhost import VirtualHost

TURN_ENTRIES = 256  # described and encoded in one turn of the loop: about 1 ms

Entry = dict[str, object]


async def exported_definitions(
    vhosts: list[VirtualHost],
    users: UserDirectory | None,
    parameters: GlobalParameters | None,
    header: Entry,
) -> AsyncIterator[bytes]:
    """The pieces of a JSON document.

    Args:
        users, parameters: None, when only what is in the vhosts is wanted.
        header: what stands first.
    """
    kinds = list(_people(vhosts, users, parameters) if users and parameters else _of_vhosts(vhosts))
    yield msgspec.json.encode(header)[:-1]
    for kind, entries in kinds:
        yield b',"%s":[' % kind.encode()
        left, comma = iter(entries), b""
        while looked_at := list(islice(left, TURN_ENTRIES)):
            if piece := [entry for entry in looked_at if entry is not None]:
                yield comma + msgspec.json.encode(piece)[1:-1]
                comma = b","
            await pause(Lane.OPERATORS)
        yield b"]"
    yield b"}"


def _people(
    vhosts: list[VirtualHost], users: UserDirectory, parameters: GlobalParameters
) -> Iterator[tuple[str, Iterable[Entry | None]]]:
    book = users.permissions
    yield "users", [described_user(user, users) for user in users.users()]
    yield "vhosts", [described_vhost(vhost.record) for vhost in vhosts]
    yield (
        "permissions",
        [
            described_permission(user.name, vhost, permission)
            for user in users.users()
            for vhost, permission in book.of_user(user.name).items()
        ],
    )
    yield (
        "topic_permissions",
        [
            described_topic_permission(user, vhost, rule.permission)
            for user in book.topic_users()
            for vhost, rules in book.topics_of_user(user).items()
            for rule in rules.values()
        ],
    )
    named = parameters.all().items()
    yield "global_parameters", [{"name": name, "value": value} for name, value in named]
    yield from _of_vhosts(vhosts)


def _of_vhosts(vhosts: list[VirtualHost]) -> Iterator[tuple[str, Iterable[Entry | None]]]:
    # None: something that is in no definitions; to pass over it takes time, too.
    yield "parameters", (entry for vhost in vhosts for entry in _parameters(vhost))
    yield (
        "policies",
        (
            described_policy(vhost.name, policy)
            for vhost in vhosts
            for policy in vhost.policies.book.all(operator=False)
        ),
    )
    yield "queues", (entry for vhost in vhosts for entry in _queues(vhost))
    yield "exchanges", (entry for vhost in vhosts for entry in _exchanges(vhost))
    yield "bindings", (entry for vhost in vhosts for entry in _bindings(vhost))


def described_user(user: User, users: UserDirectory) -> Entry:
    """A user in the form of definitions; a hash of our own is named as one."""
    algorithm, encoded = split_imported_hash(user.password_hash) or (ARGON2ID, user.password_hash)
    return {
        "name": user.name,
        "password_hash": encoded,
        "hashing_algorithm": algorithm,
        "tags": list(user.tags),
        "limits": users.limits(user.name),
    }


def described_vhost(record: VhostRecord) -> Entry:
    """A vhost in the form of definitions."""
    said: Entry = {"description": record.description, "tags": record.tags}
    if record.default_queue_type is not None:
        said["default_queue_type"] = record.default_queue_type
    return {"name": record.name, **said, "metadata": said}


def described_permission(user: str, vhost: str, permission: Permission) -> Entry:
    """A permission in the form of definitions."""
    return {
        "user": user,
        "vhost": vhost,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }


def described_topic_permission(user: str, vhost: str, permission: TopicPermission) -> Entry:
    """A topic permission in the form of definitions."""
    return {
        "user": user,
        "vhost": vhost,
        "exchange": permission.exchange,
        "write": permission.write,
        "read": permission.read,
    }


def described_policy(vhost: str, policy: Policy) -> Entry:
    """A policy in the form of definitions."""
    return {"vhost": vhost, "name": policy.name, **_policy_value(policy)}


def described_parameter(vhost: str, component: str, name: str, value: object) -> Entry:
    """A parameter in the form of definitions."""
    return {"value": value, "vhost": vhost, "component": component, "name": name}


def _policy_value(policy: Policy) -> Entry:
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def _parameters(vhost: VirtualHost) -> Iterator[Entry]:
    for policy in vhost.policies.book.all(operator=True):
        yield described_parameter(vhost.name, OPERATOR_POLICY, policy.name, _policy_value(policy))
    if vhost.limits:
        yield described_parameter(vhost.name, VHOST_LIMITS_COMPONENT, "limits", vhost.limits)
    yield from _kept(vhost, PARAMETERS)


def _kept(vhost: VirtualHost, kind: str) -> Iterator[Entry]:
    for entry in vhost.kept.all(kind):
        yield dict(entry)


def _queues(vhost: VirtualHost) -> Iterator[Entry | None]:
    for queue in vhost.queues.values():
        properties = queue.properties
        if properties.exclusive or queue.deleted:
            yield None
            continue
        yield {
            "name": queue.name,
            "vhost": vhost.name,
            "durable": properties.durable,
            "auto_delete": properties.auto_delete,
            "arguments": plain_arguments(properties.arguments),
        }


def _exchanges(vhost: VirtualHost) -> Iterator[Entry]:
    yield from _kept(vhost, EXCHANGES)
    for exchange in vhost.routing.exchanges():
        if exchange not in vhost.routing.predeclared:
            yield {
                "name": exchange.name,
                "vhost": vhost.name,
                "type": exchange.type,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": plain_arguments(exchange.arguments),
            }


def _bindings(vhost: VirtualHost) -> Iterator[Entry | None]:
    yield from _kept(vhost, BINDINGS)
    for exchange in vhost.routing.exchanges():
        if exchange.name == DEFAULT_EXCHANGE or not vhost.routing.has_exchange(exchange.name):
            continue
        for binding in vhost.routing.bindings_from(exchange.name):
            if binding.destination_kind == "queue" and _is_exclusive(vhost, binding.destination):
                yield None
                continue
            yield {
                "source": binding.source,
                "vhost": vhost.name,
                "destination": binding.destination,
                "destination_type": binding.destination_kind,
                "routing_key": binding.routing_key,
                "arguments": plain_arguments(binding.arguments),
            }


def _is_exclusive(vhost: VirtualHost, queue: str) -> bool:
    found = vhost.queues.get(queue)
    return found is None or found.properties.exclusive
