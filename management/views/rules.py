"""Policies, operator policies, limits and parameters."""

from typing import Any

import msgspec

from routelog.management.calls.answer import Answer, Empty, Listing, Row, Value, put
from routelog.management.calls.call import Call
from routelog.management.calls.failures import bad_request, not_found
from routelog.management.calls.operation import answers, changes, lists, puts
from routelog.management.shapes.definitions import (
    GlobalParameterRow,
    ParameterRow,
    PolicyRow,
    UserLimits,
    VhostLimits,
)
from routelog.management.views.shovels import put_shovel
from routelog.vhosts import (
    USER_LIMITS,
    VHOST_LIMITS,
    Policy,
    PolicyEntry,
    checked_limits,
    described_parameter,
    described_policy,
)

OPERATOR = "/operator-policies"


class PolicyBody(msgspec.Struct):
    """What a policy sets, and for which names."""

    pattern: str
    definition: dict[str, Any]
    priority: int = 0
    apply_to: str = msgspec.field(default="all", name="apply-to")


class LimitBody(msgspec.Struct):
    """The value of a limit."""

    value: int


class ParameterBody(msgspec.Struct):
    """The value of a parameter."""

    value: Any


# -- policies; which kind it is stands in the path


@lists(PolicyRow)
def list_policies(call: Call) -> Answer:
    """The policies of the vhosts that the caller sees."""
    return _policies(call, call.seen_vhosts())


@lists(PolicyRow)
def list_policies_of_vhost(call: Call) -> Answer:
    """The policies of a vhost."""
    return _policies(call, [call.vhost])


def _policies(call: Call, vhosts: list[Any]) -> Listing:
    operator = call.is_under(OPERATOR)
    items = ((v.name, each) for v in vhosts for each in v.policies.book.all(operator=operator))
    return Listing(items, lambda item: _policy_row(*item), lambda item: str(item[1].name))


def _policy_row(vhost: str, policy: Policy) -> PolicyRow:
    row = msgspec.convert(described_policy(vhost, policy), PolicyRow)
    if policy.ran_out_for is not None:
        row.pattern_took_too_long_for = policy.ran_out_for
    return row


@answers(PolicyRow)
def get_policy(call: Call) -> Answer:
    """A policy."""
    book = call.vhost.policies.book
    policy = book.get(call.path("name"), operator=call.is_under(OPERATOR))
    return Value(_policy_row(call.vhost.name, policy))


@puts(PolicyBody)
async def put_policy(call: Call) -> Answer:
    """Set a policy; when this is answered, everything goes by it."""
    body = await call.body(PolicyBody)
    said = msgspec.structs.asdict(body)
    entry = PolicyEntry(call.path("name"), **said)
    policy = entry.policy(is_operator=call.is_under(OPERATOR))
    known = call.vhost.policies.book.all(operator=policy.is_operator)
    existed = any(each.name == policy.name for each in known)
    await call.vhost.policies.put(policy)
    return put(existed)


@changes()
async def delete_policy(call: Call) -> Answer:
    """Delete a policy."""
    await call.vhost.policies.delete(call.path("name"), operator=call.is_under(OPERATOR))
    return Empty()


# -- limits


@lists(VhostLimits)
def list_vhost_limits(call: Call) -> Answer:
    """The limits of the vhosts that the caller sees."""
    return Listing([vhost for vhost in call.seen_vhosts() if vhost.limits], _vhost_limits)


@lists(VhostLimits)
def list_limits_of_vhost(call: Call) -> Answer:
    """The limits of a vhost."""
    return Listing([call.vhost] if call.vhost.limits else [], _vhost_limits)


def _vhost_limits(vhost: Any) -> VhostLimits:
    return VhostLimits(vhost.name, vhost.limits)


@changes(LimitBody)
async def put_vhost_limit(call: Call) -> Answer:
    """Set one limit of a vhost, such as `max-queues` or `max-publish-rate`."""
    value = (await call.body(LimitBody)).value
    limit = checked_limits(VHOST_LIMITS, {call.path("limit"): value})
    await _set_vhost_limits(call, {**call.vhost.limits, **limit})
    return Empty()


@changes()
async def delete_vhost_limit(call: Call) -> Answer:
    """Lift one limit of a vhost."""
    limits = dict(call.vhost.limits)
    limits.pop(call.path("limit"), None)
    await _set_vhost_limits(call, limits)
    return Empty()


async def _set_vhost_limits(call: Call, limits: dict[str, int]) -> None:
    await call.broker.vhosts.set_limits(call.vhost.name, limits)


@lists(UserLimits)
def list_user_limits(call: Call) -> Answer:
    """The limits of the users whom the caller may know: of all, or his own."""
    users = call.broker.users
    limited = [
        user.name
        for user in users.users()
        if users.limits(user.name) and call.caller.knows_user(user.name)
    ]
    return Listing(limited, lambda name: UserLimits(name, users.limits(name)))


@lists(UserLimits)
def list_limits_of_user(call: Call) -> Answer:
    """The limits of a user."""
    users, name = call.broker.users, call.path("user")
    if not call.caller.knows_user(name) or users.find(name) is None:
        raise not_found("user", name)
    limited = [name] if users.limits(name) else []
    return Listing(limited, lambda name: UserLimits(name, users.limits(name)))


@changes(LimitBody)
async def put_user_limit(call: Call) -> Answer:
    """Set one limit of a user, such as `max-channels` or `max-publish-rate`."""
    value = (await call.body(LimitBody)).value
    users, name = call.broker.users, call.path("user")
    limit = checked_limits(USER_LIMITS, {call.path("limit"): value})
    await users.set_limits(name, {**users.limits(name), **limit})
    return Empty()


@changes()
async def delete_user_limit(call: Call) -> Answer:
    """Lift one limit of a user."""
    users, name = call.broker.users, call.path("user")
    limits = dict(users.limits(name))
    limits.pop(call.path("limit"), None)
    await users.set_limits(name, limits)
    return Empty()


# -- parameters


@lists(ParameterRow)
def list_parameters(call: Call) -> Answer:
    """Parameters of vhosts: limits, and what was imported without effect."""
    items: list[Row] = []
    for vhost in call.seen_vhosts():
        if vhost.limits:
            limits = described_parameter(vhost.name, "vhost-limits", "limits", vhost.limits)
            items.append(limits)
        items += map(dict, vhost.kept.all("parameters"))
    return Listing(items, lambda item: item)


@lists(ParameterRow)
def list_parameters_of_component(call: Call) -> Answer:
    """Parameters of one component, of one vhost or all: those without effect."""
    vhosts = [call.vhost] if call.has_vhost else call.seen_vhosts()
    items = [
        dict(each)
        for vhost in vhosts
        for each in vhost.kept.all("parameters")
        if each["component"] == call.path("component")
    ]
    return Listing(items, lambda item: item)


@changes(ParameterBody, statuses=(201,))
async def put_parameter(call: Call) -> Answer:
    """Carry out a shovel that moves messages once; other components of plugins are not there."""
    component = call.path("component")
    if component == "shovel":
        return await put_shovel(call)
    raise bad_request(f"Validation failed\n\ncomponent {component} not found\n")


@answers(ParameterRow)
def get_parameter(call: Call) -> Answer:
    """One parameter, which has no effect."""
    return Value(dict(call.vhost.kept.parameter(call.path("component"), call.path("name"))))


@changes()
async def delete_parameter(call: Call) -> Answer:
    """Forget a parameter, which had no effect."""
    await call.vhost.kept.delete_parameter(call.path("component"), call.path("name"))
    return Empty()


@lists(GlobalParameterRow)
def list_global_parameters(call: Call) -> Answer:
    """All global parameters."""
    items = list(call.broker.parameters.all().items())
    return Listing(items, lambda item: GlobalParameterRow(*item), lambda item: str(item[0]))


@answers(GlobalParameterRow)
def get_global_parameter(call: Call) -> Answer:
    """A global parameter."""
    name = call.path("name")
    return Value(GlobalParameterRow(name, call.broker.parameters.get(name)))


@puts(ParameterBody)
async def put_global_parameter(call: Call) -> Answer:
    """Set a global parameter."""
    body = await call.body(ParameterBody)
    name = call.path("name")
    existed = name in call.broker.parameters.all()
    await call.broker.parameters.put(name, body.value)
    return put(existed)


@changes()
async def delete_global_parameter(call: Call) -> Answer:
    """Delete a global parameter."""
    await call.broker.parameters.delete(call.path("name"))
    return Empty()
