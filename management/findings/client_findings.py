"""Clients that cannot work: blocked publishers, messages held for long, refused logins."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from routelog.log_backend import Lane, in_turns
from routelog.management.calls.answer import Answer, Value
from routelog.management.calls.call import Call
from routelog.management.calls.caller import Need
from routelog.management.calls.other_nodes import other_nodes
from routelog.management.figures.numbers import as_span
from routelog.management.findings.finding import Finding, Named, finding

TROUBLED = "/inner/troubled"
REFUSED_SECONDS = 600.0
REFUSED_MIN = 8  # of one name in this time: after 10 in a row the log is told of none over HTTP


class RefusedLogins(msgspec.Struct):
    """Logins of a name from one place that a node has refused lately, the first of them at `since`."""

    name: str
    place: str
    times: int
    since: float


class Troubled(msgspec.Struct):
    """Clients of a node that cannot work, the worst first: see the kinds of findings."""

    blocked: list[Named]
    unacked: list[Named]
    refused: list[RefusedLogins]


_SUMMARIES = {
    "login": "{:,} users are refused again and again",
    "blocked": "{:,} connections may not publish",
    "unacked": "{:,} channels hold messages for long",
}


async def client_findings(call: Call) -> list[Finding]:
    """All of these kinds, of the connections that the caller sees, at all nodes."""
    troubled, others = await _troubled(call), await other_nodes(call, TROUBLED)
    for each in others.values(Troubled):
        troubled.blocked += each.blocked
        troubled.unacked += each.unacked
        troubled.refused += each.refused
    troubled.unacked.sort(key=_since)
    kinds = {
        "login": _refused_often(troubled.refused),
        "blocked": troubled.blocked,
        "unacked": troubled.unacked,
    }
    found = [
        finding(kind, named, summary=_SUMMARIES[kind].format(len(named)))
        for kind, named in kinds.items()
        if named
    ]
    if others.silent:
        text = "does not tell of its clients: lists are without them"
        named = [Named(type="node", name=name, text=text) for name in others.silent]
        summary = f"{len(named)} nodes do not tell of their clients"
        found.append(finding("silent", named, severity="wrong", summary=summary))
    return found


async def troubled_here(call: Call) -> Answer:
    """The clients of this node: for the one that leads."""
    return Value(await _troubled(call))


async def _troubled(call: Call) -> Troubled:
    found = Troubled([], [], [])
    broker, sees_all = call.broker, call.caller.has(Need.MONITORING)
    async for connection in in_turns(broker.connections.connections(), Lane.OPERATORS):
        if sees_all or connection.user == call.caller.name:
            found.blocked += _blocked(call, connection)
            found.unacked += _holding(call, connection)
    found.unacked.sort(key=_since)
    if call.caller.has(Need.ADMINISTRATOR):
        found.refused += _refused(call)
    return found


def _since(named: Named) -> float:
    return named.since or 0.0


def _blocked(call: Call, connection: Any) -> Iterator[Named]:
    values = call.broker.connections.describe(connection)
    if values.blocked_by:
        text = f"of user {values.user} may not publish: {', '.join(values.blocked_by)}"
        yield Named(type="connection", name=values.name, text=text, vhost=values.vhost)


def _holding(call: Call, connection: Any) -> Iterator[Named]:
    connections = call.broker.connections
    for channel in connections.channels(connection):
        queue, held = channel.oldest_held
        if held >= call.broker.findings.age_seconds:
            text = f"does not acknowledge messages of {queue} for {as_span(held)}"
            yield Named(
                type="connection",
                name=connections.name(connection),
                text=f"{text}: {channel.unacknowledged:,} in channel {channel.number}",
                vhost=connection.vhost.name,
                messages=channel.unacknowledged,
                since=call.broker.clock.now() / 1_000_000 - held,
            )


def _refused(call: Call) -> list[RefusedLogins]:
    """Of the last lines of the log."""
    begin = (call.broker.clock.now() / 1_000_000 - REFUSED_SECONDS) * 1_000
    found: dict[tuple[str, str], RefusedLogins] = {}
    for line in call.broker.log_lines():
        if line["number"] >= begin and (who := _refused_login(line)):
            found.setdefault(who, RefusedLogins(*who, 0, line["number"] / 1_000)).times += 1
    return [*found.values()]


def _refused_often(rows: list[RefusedLogins]) -> list[Named]:
    """By name: a client may have tried at several nodes, or processes."""
    places: dict[str, Counter[str]] = {}
    since: dict[str, float] = {}
    for row in rows:
        places.setdefault(row.name, Counter())[row.place] += row.times
        since[row.name] = min(row.since, since.get(row.name, row.since))
    often = [(at.total(), name) for name, at in places.items() if at.total() >= REFUSED_MIN]
    return [
        Named(
            type="user",
            name=name,
            text=f"was refused {times:,} times in ten minutes, "
            f"most from {places[name].most_common(1)[0][0]}",
            since=since[name],
        )
        for times, name in sorted(often, key=lambda each: -each[0])
    ]


def _refused_login(line: dict[str, Any]) -> tuple[str, str] | None:
    # Who, and from where.
    if line.get("event") == "user.authentication.failure":
        return str(line.get("name")), str(line.get("peer_host"))
    is_login = line.get("event") == "http.refused" and line.get("status") == 401
    if is_login and line.get("name"):
        return str(line["name"]), str(line.get("address", "")).rpartition(":")[0]
    return None
