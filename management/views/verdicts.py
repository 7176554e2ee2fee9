"""Whether a user may do something with an exchange or queue, and which rule decides."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from routelog.management.calls.answer import Answer, Value
from routelog.management.calls.call import Call
from routelog.management.calls.failures import bad_request
from routelog.management.calls.operation import Parameter, answers
from routelog.management.views.bindings import DEFAULT_NAME, exchange_name
from routelog.vhosts import (
    LOG_EXCHANGE,
    AccessRefused,
    PermissionBook,
    ResourceKind,
    User,
    Verb,
    VirtualHost,
)

Verbs = Literal["configure", "write", "read"]


class RuleRow(msgspec.Struct):
    """A rule that was asked, in words."""

    rule: str
    allowed: bool
    text: str
    pattern: str | msgspec.UnsetType = msgspec.UNSET


class Verdict(msgspec.Struct):
    """What the rules say, in their order; the last one decides."""

    allowed: bool
    rules: list[RuleRow]
    exists: bool


@dataclass(frozen=True, slots=True)
class _Question:
    """What the user would do.

    Attributes:
        routing_key: of a publish (write) or a binding (read) of an exchange; None: of neither.
    """

    verb: Verb
    kind: ResourceKind
    name: str
    routing_key: str | None

    @property
    def shown_name(self) -> str:
        """The name that patterns are matched with."""
        return self.name or (DEFAULT_NAME if self.kind is ResourceKind.EXCHANGE else "")


@answers(
    Verdict,
    query={
        "verb": Parameter("what the user would do", Verbs, is_needed=True),
        "exchange": Parameter("with which exchange; or a queue is named"),
        "queue": Parameter("with which queue"),
        "routing_key": Parameter("of a publish to the exchange (write), or of a binding (read)"),
    },
)
def may(call: Call) -> Answer:
    """Whether a user may `verb` an `exchange` (with a `routing_key`) or a `queue`; the last rule decides."""
    user, vhost = call.broker.users.get(call.path("user")), call.vhost
    asked = _question(call)
    rules: list[RuleRow] = []
    for rule in _rules(call.broker.users.permissions, user, vhost, asked):
        rules.append(rule)
        if not rule.allowed:
            break
    is_exchange = asked.kind is ResourceKind.EXCHANGE
    there = vhost.routing.has_exchange(asked.name) if is_exchange else asked.name in vhost.queues
    return Value(Verdict(rules[-1].allowed, rules, there))


def _question(call: Call) -> _Question:
    query = call.query
    verbs = {verb.value: verb for verb in Verb}
    verb = verbs.get(query.get("verb", ""))
    if verb is None:
        raise bad_request(f"verb: expected one of {', '.join(verbs)}")
    if ("exchange" in query) == ("queue" in query):
        raise bad_request("expected either exchange or queue")
    if "queue" in query:
        return _Question(verb, ResourceKind.QUEUE, query["queue"], None)
    name = exchange_name(query["exchange"])
    return _Question(verb, ResourceKind.EXCHANGE, name, query.get("routing_key"))


def _rules(
    book: PermissionBook, user: User, vhost: VirtualHost, asked: _Question
) -> Iterator[RuleRow]:
    """The rules in the order in which the broker asks them; those after a refusal mean nothing."""
    verb, name = asked.verb, asked.shown_name
    permission = book.of_user(user.name).get(vhost.name)
    has = "a" if permission is not None else "no"
    text = f"{user.name} has {has} permission in virtual host {vhost.name}"
    yield RuleRow("virtual host", permission is not None, text)
    if permission is None:
        return
    pattern = {
        Verb.CONFIGURE: permission.configure,
        Verb.WRITE: permission.write,
        Verb.READ: permission.read,
    }[verb]
    yield _pattern_rule("permission", verb, pattern, name, permission.allows(verb, name))
    if asked.kind is ResourceKind.QUEUE:
        return
    if asked.name == LOG_EXCHANGE and verb is Verb.READ:
        is_tagged = _is_authorized(book, user, vhost, asked)
        text = f"reading {LOG_EXCHANGE} takes the tag monitoring or administrator"
        yield RuleRow("tag", is_tagged, text)
    if asked.routing_key is None or not vhost.routing.has_exchange(asked.name):
        return
    if verb is Verb.WRITE and vhost.routing.exchange(asked.name).internal:
        yield RuleRow("internal", False, f"{name} is internal: clients do not publish to it")
    topic = book.topics(user.name, vhost.name).get(asked.name)
    if topic is None or verb is Verb.CONFIGURE or not vhost.routing.routes_by_topic(asked.name):
        return
    pattern = topic.permission.write if verb is Verb.WRITE else topic.permission.read
    allowed = topic.allows(verb, asked.routing_key)
    yield _pattern_rule("topic permission", verb, pattern, asked.routing_key, allowed)


def _is_authorized(book: PermissionBook, user: User, vhost: VirtualHost, asked: _Question) -> bool:
    try:
        book.authorize(user.name, vhost.name, asked.kind, asked.name, asked.verb)
    except AccessRefused:
        return False
    return True


def _pattern_rule(rule: str, verb: Verb, pattern: str, text: str, allowed: bool) -> RuleRow:
    matches = "matches" if allowed else "does not match"
    told = f"{verb.value} '{pattern}' {matches} '{text}'"
    return RuleRow(rule, allowed, told, pattern)
