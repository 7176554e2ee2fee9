"""Everything that a node knows of its definitions, as values that can be compared."""

from __future__ import annotations

from typing import Any, cast

from routelog.exchanges.topology.binding_graph import BindingGraph
from routelog.vhosts import GlobalParameters, UserDirectory, VhostDirectory, VirtualHost


def known_definitions(
    vhosts: VhostDirectory, users: UserDirectory, parameters: GlobalParameters
) -> dict[str, object]:
    """All definitions of a node that opens nothing: it follows, or has just loaded them."""
    budget, permissions = cast(Any, vhosts.budget), cast(Any, users.permissions)
    found: dict[str, object] = {
        "next partition": vhosts.next_partition,
        "budget": (budget.bytes, dict(budget._of_user), dict(budget._bindings_of_user)),
        "users": users.users(),
        "limits": {each.name: users.limits(each.name) for each in users.users()},
        "permissions": {each.name: permissions.of_user(each.name) for each in users.users()},
        "topics": {
            (user, vhost): {name: rule.permission for name, rule in rules.items()}
            for user in permissions.topic_users()
            for vhost, rules in permissions.topics_of_user(user).items()
        },
        "parameters": parameters.all(),
    }
    for vhost in vhosts.all():
        found[f"vhost {vhost.name}"] = known_of(vhost)
    return found


def known_of(vhost: VirtualHost) -> dict[str, object]:
    """The definitions of one vhost."""
    groups, book, stored = cast(Any, vhost.hosted.groups), vhost.policies.book, vhost.stored
    return {
        "record": vhost.record,
        **known_topology(vhost),
        "binding count": vhost.binding_count,
        "stored queues": dict(stored.queues),
        "numbers of exchanges": {name: list(each) for name, each in stored.partitions.items()},
        "groups": dict(groups._stored_records),
        "next cursors": dict(groups._next_cursors),
        "policies": [book.all(operator=operator) for operator in (False, True)],
        "kept": {place: vhost.kept.all(place[0]) for place in vhost.kept.places()},
    }


def known_topology(vhost: VirtualHost, *, transient: bool = True) -> dict[str, object]:
    """The routing table, with what has gone and has bindings left.

    Args:
        transient: also what is not durable.
    """
    graph: BindingGraph = cast(Any, vhost.routing)._graph
    nodes = [*graph.exchanges.values(), *graph.queues.values(), *graph.departed.values()]
    bindings = {each for node in nodes for each in node.bindings() if each.durable or transient}
    return {
        "exchanges": sorted(
            (each for each in vhost.routing.exchanges() if each.durable or transient),
            key=lambda each: each.name,
        ),
        "queues": sorted(
            (name, node.durable) for name, node in graph.queues.items() if node.durable or transient
        ),
        "bindings": sorted((repr(each), each.user) for each in bindings),
        "departed": sorted(
            end
            for end, node in graph.departed.items()
            if any(each.durable or transient for each in node.bindings())
        ),
    }
