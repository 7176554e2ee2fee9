"""Policies, limits and parameters over HTTP."""

import pytest
from unit.management.managed_node import ManagedNode

from routelog.management.calls.failures import Refused
from routelog.management.views import rules
from routelog.vhosts import (
    InvalidLimit,
    InvalidPolicy,
    ParameterNotFound,
    PolicyNotFound,
    UserNotFound,
)

POLICY = {"pattern": "^q", "definition": {"max-length": 3}, "priority": 2, "apply-to": "queues"}
OPERATORS = "/api/operator-policies"


async def test_a_policy_counts_at_once_and_is_shown_and_deleted(node: ManagedNode) -> None:
    queue = await node.queue("q")
    assert await node.ask(rules.put_policy, name="p", body=POLICY) == 201
    assert await node.ask(rules.put_policy, name="p", body=POLICY) == 204
    assert queue.effective.policy is not None
    assert queue.effective.policy.name == "p"
    expected = {"vhost": "/", "name": "p", **POLICY}
    assert await node.ask(rules.get_policy, name="p") == expected
    assert await node.ask(rules.list_policies) == [expected]
    assert await node.ask(rules.list_policies_of_vhost) == [expected]
    assert await node.ask(rules.list_policies, node.caller("stranger")) == []
    assert await node.ask(rules.delete_policy, name="p") == 204
    assert queue.effective.policy is None
    with pytest.raises(PolicyNotFound):
        await node.ask(rules.get_policy, name="p")


async def test_policies_of_operators_are_others_than_those_of_users(node: ManagedNode) -> None:
    body = {"pattern": "^q", "definition": {"max-length": 3}}
    assert await node.ask(rules.put_policy, name="o", body=body, path=OPERATORS) == 201
    assert await node.ask(rules.list_policies) == []
    (row,) = await node.ask(rules.list_policies, path=OPERATORS)
    assert row["name"] == "o"
    with pytest.raises(PolicyNotFound):
        await node.ask(rules.delete_policy, name="o")
    assert await node.ask(rules.delete_policy, name="o", path=OPERATORS) == 204


@pytest.mark.parametrize(
    "change",
    [{"pattern": "("}, {"definition": {"max-length": -1}}, {"definition": {"of-nobody": 1}}],
)
async def test_what_is_no_policy_is_refused(node: ManagedNode, change: dict[str, object]) -> None:
    with pytest.raises(InvalidPolicy):
        await node.ask(rules.put_policy, name="p", body={**POLICY, **change})
    assert await node.ask(rules.list_policies) == []


@pytest.mark.parametrize("body", [b"[]", b"{", {"pattern": 1}, {"definition": {}}])
async def test_a_body_that_is_none_is_refused(node: ManagedNode, body: object) -> None:
    with pytest.raises(Refused) as raised:
        await node.ask(rules.put_policy, name="p", body=body)
    assert raised.value.status == 400


async def test_limits_of_a_vhost_are_set_and_lifted_one_by_one(node: ManagedNode) -> None:
    assert await node.ask(rules.list_vhost_limits) == []
    for limit, value in (("max-queues", 7), ("max-connections", 0)):
        assert await node.ask(rules.put_vhost_limit, limit=limit, body={"value": value}) == 204
    row = {"vhost": "/", "value": {"max-queues": 7, "max-connections": 0}}
    assert await node.ask(rules.list_vhost_limits) == [row]
    assert await node.ask(rules.list_limits_of_vhost) == [row]
    (parameter,) = await node.ask(rules.list_parameters)
    assert (parameter["component"], parameter["value"]) == ("vhost-limits", row["value"])
    assert await node.ask(rules.delete_vhost_limit, limit="max-queues") == 204
    assert await node.ask(rules.delete_vhost_limit, limit="max-connections") == 204
    assert await node.ask(rules.delete_vhost_limit, limit="max-connections") == 204
    assert await node.ask(rules.list_limits_of_vhost) == []


async def test_limits_of_a_user_are_seen_by_him_and_administrators(node: ManagedNode) -> None:
    user, other = await node.user("u"), await node.user("other")
    assert (
        await node.ask(rules.put_user_limit, user="u", limit="max-channels", body={"value": 2})
        == 204
    )
    row = {"user": "u", "value": {"max-channels": 2}}
    for caller in (node.admin, user):
        assert await node.ask(rules.list_user_limits, caller) == [row]
        assert await node.ask(rules.list_limits_of_user, caller, user="u") == [row]
    assert await node.ask(rules.list_user_limits, other) == []
    for caller, name in ((other, "u"), (node.admin, "nobody")):
        with pytest.raises(Refused, match=r"^no "):
            await node.ask(rules.list_limits_of_user, caller, user=name)
    assert await node.ask(rules.delete_user_limit, user="u", limit="max-channels") == 204
    assert await node.ask(rules.list_limits_of_user, user="u") == []


async def test_a_limit_that_is_none_is_refused(node: ManagedNode) -> None:
    await node.user("u")
    with pytest.raises(InvalidLimit):
        await node.ask(rules.put_vhost_limit, limit="max-sheep", body={"value": 1})
    with pytest.raises(InvalidLimit):
        await node.ask(rules.put_user_limit, user="u", limit="max-queues", body={"value": 1})
    with pytest.raises(UserNotFound):
        await node.ask(rules.put_user_limit, user="x", limit="max-channels", body={"value": 1})
    with pytest.raises(Refused, match="int"):
        await node.ask(rules.put_vhost_limit, limit="max-queues", body={"value": "many"})


async def test_global_parameters_are_set_shown_and_deleted(node: ManagedNode) -> None:
    body = {"value": {"a": [1, None]}}
    assert await node.ask(rules.put_global_parameter, name="g", body=body) == 201
    assert await node.ask(rules.put_global_parameter, name="g", body=body) == 204
    row = {"name": "g", **body}
    assert await node.ask(rules.get_global_parameter, name="g") == row
    assert row in await node.ask(rules.list_global_parameters)
    assert await node.ask(rules.delete_global_parameter, name="g") == 204
    for handler in (rules.get_global_parameter, rules.delete_global_parameter):
        with pytest.raises(ParameterNotFound):
            await node.ask(handler, name="g")


async def test_parameters_of_plugins_are_not_taken(node: ManagedNode) -> None:
    parts = {"component": "federation-upstream", "name": "s"}
    with pytest.raises(Refused, match="component federation-upstream not found"):
        await node.ask(rules.put_parameter, **parts, body={"value": {}})
    shovel = {"component": "shovel", "name": "s"}
    with pytest.raises(Refused, match="src-delete-after"):
        await node.ask(rules.put_parameter, **shovel, body={"value": {}})
    assert await node.ask(rules.list_parameters_of_component, component="shovel") == []
    for handler in (rules.get_parameter, rules.delete_parameter):
        with pytest.raises(ParameterNotFound):
            await node.ask(handler, **parts)
