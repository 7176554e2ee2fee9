"""The arguments in force for a queue: its own, merged with its policy and its operator policy.

key of both policies        operator's value, or the lower one where RabbitMQ takes the lower
key of policy and argument  the argument, or the lower one; of ages the shorter
`ha-mode`                   x-durability: mirrored, unless one of them says another one
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from routelog.vhosts.arguments.argument_checks import MIRRORED, age_microseconds
from routelog.vhosts.arguments.mirror_keys import MODE
from routelog.vhosts.arguments.policy import LOWER_WINS, QUEUE_KEYS, Policy


@dataclass(frozen=True, slots=True)
class EffectiveArguments:
    """The arguments in force, by name, and the policies they come from.

    Attributes:
        values: never changed.
    """

    values: Mapping[str, object]
    policy: Policy | None = None
    operator_policy: Policy | None = None


def merged_definitions(policy: Policy | None, operator: Policy | None) -> Mapping[str, object]:
    """The keys of a policy, limited by the operator policy."""
    if operator is None:
        return {} if policy is None else policy.effective
    merged = dict(policy.effective) if policy is not None else {}
    for key, value in operator.effective.items():
        merged[key] = _combined(key, merged.get(key, value), value)
    return merged


def effective_arguments(
    arguments: Mapping[str, object], policy: Policy | None, operator: Policy | None
) -> EffectiveArguments:
    """The arguments in force for a queue declared with some arguments."""
    if policy is None and operator is None:
        return EffectiveArguments(arguments)
    values = dict(arguments)
    merged = merged_definitions(policy, operator)
    for key, value in merged.items():
        if key in QUEUE_KEYS:
            argument = f"x-{key}"
            values[argument] = _combined(key, value, values.get(argument, value))
    if MODE in merged:
        values.setdefault("x-durability", MIRRORED)
    return EffectiveArguments(values, policy, operator)


def _combined(key: str, weaker: object, stronger: object) -> object:
    if key == "max-age":
        return min(stronger, weaker, key=age_microseconds)  # type: ignore[arg-type]
    return min(stronger, weaker, key=_allowed) if key in LOWER_WINS else stronger


def _allowed(limit: object) -> float:
    # Values are checked before they come here; -1 is RabbitMQ's "no limit" of deliveries.
    return limit if isinstance(limit, int) and limit >= 0 else math.inf
