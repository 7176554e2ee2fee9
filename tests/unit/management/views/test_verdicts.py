"""Whether a user may do something, and which rule decides."""

from itertools import product
from urllib.parse import urlencode

import pytest
from unit.management.managed_node import ManagedNode

from routelog.exchanges import Exchange
from routelog.management.calls.failures import Refused
from routelog.management.views import verdicts
from routelog.vhosts import (
    LOG_EXCHANGE,
    AccessRefused,
    Permission,
    ResourceKind,
    TopicPermission,
    User,
    UserNotFound,
    Verb,
)


@pytest.fixture
async def node(node: ManagedNode) -> ManagedNode:
    await node.user("ann")  # what begins with "mine"
    await node.users.put_user(User("bob", "", ("monitoring",)))
    await node.users.set_permissions("bob", "/", Permission("", "^(amq|mine)", ".*"))
    rule = TopicPermission("amq.topic", r"^\{?{username}", "^read")
    await node.users.set_topic_permission("bob", "/", rule)
    await node.users.put_user(User("carol", "", ()))
    for name, internal in (("mine", False), ("mine.inner", True)):
        done = node.vhost.declare_exchange(Exchange(name, "topic", durable=True, internal=internal))
        if done is not None:
            await done
    await node.queue("mine.queue")
    return node


async def asked(node: ManagedNode, user: str, **query: str):
    return await node.ask(verdicts.may, user=user, query=urlencode(query))


@pytest.mark.parametrize(
    ("user", "query", "decided"),
    [
        ("carol", {"verb": "read", "queue": "q"}, "carol has no permission in virtual host /"),
        ("ann", {"verb": "read", "queue": "mine.queue"}, "read '^mine' matches 'mine.queue'"),
        ("ann", {"verb": "configure", "queue": "q"}, "configure '^mine' does not match 'q'"),
        ("bob", {"verb": "configure", "queue": "q"}, "configure '' does not match 'q'"),
        ("bob", {"verb": "write", "exchange": ""}, "write '^(amq|mine)' matches 'amq.default'"),
        (
            "bob",
            {"verb": "write", "exchange": "amq.topic", "routing_key": "bob.x"},
            r"write '^\{?{username}' matches 'bob.x'",
        ),
        (
            "bob",
            {"verb": "write", "exchange": "amq.topic", "routing_key": "ann.x"},
            r"write '^\{?{username}' does not match 'ann.x'",
        ),
        (
            "bob",
            {"verb": "read", "exchange": "amq.topic", "routing_key": "x"},
            "read '^read' does not match 'x'",
        ),
        (
            "ann",
            {"verb": "write", "exchange": "mine.inner", "routing_key": ""},
            "mine.inner is internal: clients do not publish to it",
        ),
    ],
)
async def test_the_last_rule_is_the_one_that_decides(
    node: ManagedNode, user: str, query: dict[str, str], decided: str
) -> None:
    answer = await asked(node, user, **query)
    assert answer["rules"][-1]["text"] == decided
    assert answer["allowed"] == answer["rules"][-1]["allowed"]
    assert all(rule["allowed"] for rule in answer["rules"][:-1])


async def test_the_answer_is_what_the_broker_does(node: ManagedNode) -> None:
    book = node.users.permissions
    names = ("", "amq.topic", LOG_EXCHANGE, "mine", "other")
    kinds = {"exchange": ResourceKind.EXCHANGE, "queue": ResourceKind.QUEUE}
    for user, verb, kind, name in product(("ann", "bob", "carol"), Verb, kinds, names):
        answer = await asked(node, user, verb=verb.value, **{kind: name})
        try:
            book.authorize(user, "/", kinds[kind], name, verb)
            allowed = True
        except AccessRefused:
            allowed = False
        assert answer["allowed"] == allowed, (user, verb, kind, name)
    for user, verb, key in product(("ann", "bob"), (Verb.WRITE, Verb.READ), ("bob.x", "read", "")):
        query = {"verb": verb.value, "exchange": "amq.topic", "routing_key": key}
        answer = await asked(node, user, **query)
        try:
            book.authorize(user, "/", ResourceKind.EXCHANGE, "amq.topic", verb)
            book.authorize_topic(user, "/", "amq.topic", verb, key)
            allowed = True
        except AccessRefused:
            allowed = False
        assert answer["allowed"] == allowed, (user, verb, key)


async def test_reading_the_log_exchange_takes_a_tag(node: ManagedNode) -> None:
    await node.users.set_permissions("ann", "/", Permission("", "", ".*"))
    answer = await asked(node, "ann", verb="read", exchange=LOG_EXCHANGE)
    assert (answer["allowed"], answer["rules"][-1]["rule"]) == (False, "tag")
    assert (await asked(node, "bob", verb="read", exchange=LOG_EXCHANGE))["allowed"]


async def test_what_is_not_there_is_said(node: ManagedNode) -> None:
    for query, exists in (
        ({"exchange": "mine"}, True),
        ({"exchange": "mine.gone"}, False),
        ({"queue": "mine.queue"}, True),
        ({"queue": "mine.gone"}, False),
    ):
        answer = await asked(node, "ann", verb="write", **query)
        assert (answer["allowed"], answer["exists"]) == (True, exists)


async def test_a_question_that_is_none_is_refused(node: ManagedNode) -> None:
    for query, reason in (
        ({"queue": "q"}, "verb: expected one of configure, write, read"),
        ({"verb": "write"}, "either exchange or queue"),
        ({"verb": "write", "queue": "q", "exchange": "x"}, "either exchange or queue"),
    ):
        with pytest.raises(Refused, match=reason):
            await asked(node, "ann", **query)
    with pytest.raises(UserNotFound):
        await asked(node, "nobody", verb="read", queue="q")
