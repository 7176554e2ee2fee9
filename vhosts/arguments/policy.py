"""A policy: settings for all queues and exchanges of a vhost whose names match a pattern; and the arguments
that are in force for a queue: its own, merged with its policy and its operator policy.

key of both policies        operator's value, or the lower one where RabbitMQ takes the lower
key of policy and argument  the argument, or the lower one; of ages the shorter
`ha-mode`                   x-durability: mirrored, unless one of them says another one
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from routelog.vhosts.arguments.argument_checks import (
    CLEANUPS,
    DEAD_LETTER_STRATEGIES,
    DURABILITIES,
    MIRRORED,
    OVERFLOWS,
    RETRIES,
    WITHOUT_EFFECT,
    Check,
    age,
    age_microseconds,
    flag,
    integer,
    one_of,
    routing_key,
    text,
)
from routelog.vhosts.arguments.mirror_keys import MIRROR_KEYS, MODE, mirror_fault
from routelog.vhosts.arguments.pattern import BadPattern, MatchBudget, OutOfTime, Pattern
from routelog.vhosts.errors import InvalidPolicy

NAME_BYTES_MAX = 255  # a short string of AMQP, as the names of queues
PRIORITY_MAX = 2**31 - 1

APPLY_TO = ("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams")

ALTERNATE_EXCHANGE = "alternate-exchange"

# Of queues: each key is the argument of this name without its "x-".
QUEUE_KEYS: Mapping[str, Check] = {
    "message-ttl": integer(0),
    "expires": integer(1),
    "max-length": integer(0),
    "max-length-bytes": integer(0),
    "overflow": one_of(*OVERFLOWS),
    "dead-letter-exchange": text,
    "dead-letter-routing-key": text,
    "dead-letter-strategy": one_of(*DEAD_LETTER_STRATEGIES),
    "delivery-limit": integer(-1),
    "delayed-retry-type": one_of(*RETRIES),
    "delayed-retry-min": integer(1),
    "delayed-retry-max": integer(1),
    "consumer-timeout": integer(0),
    "max-age": age,
    "cleanup-policy": one_of(*CLEANUPS),
    "delete-retention": age,
    "min-compaction-lag": age,
    "durability": one_of(*DURABILITIES),
    "remote-storage": flag,
    "local-max-age": age,
    "local-max-length-bytes": integer(0),
}


# Keys without meaning on a single node: checked and kept, without effect.
UNUSED_KEYS: Mapping[str, Check] = {
    **MIRROR_KEYS,
    **WITHOUT_EFFECT,
    "target-group-size": integer(1),
}

CHECKS: Mapping[str, Check] = {**QUEUE_KEYS, **UNUSED_KEYS, ALTERNATE_EXCHANGE: text}

# Stricter ones, of what is put: a stored policy must stay readable.
PUT_CHECKS: Mapping[str, Check] = {"dead-letter-routing-key": routing_key}

# Keys whose lowest value is in force, from argument, policy and operator policy.
LOWER_WINS = frozenset({"message-ttl", "expires", "max-length", "max-length-bytes"})
LOWER_WINS |= {"delivery-limit", "max-in-memory-length", "max-in-memory-bytes"}

OPERATOR_KEYS = LOWER_WINS | {"overflow", "target-group-size"}
OPERATOR_KEYS |= {"ha-mode", "ha-params", "ha-sync-mode", "min-in-sync"}


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy, or an operator policy.

    Attributes:
        keeps_unknown: the definition may have unknown keys, without effect.
        effective: the definition without unknown keys.

    Raises:
        InvalidPolicy: names the part that cannot be.
    """

    name: str
    pattern: str
    definition: Mapping[str, object]
    priority: int = 0
    apply_to: str = "all"
    is_operator: bool = False
    keeps_unknown: bool = False
    effective: Mapping[str, object] = field(init=False, repr=False, compare=False)
    _pattern: Pattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not -PRIORITY_MAX <= self.priority <= PRIORITY_MAX:
            raise InvalidPolicy(self.name, "priority", "not a 32-bit number")
        if self.apply_to not in APPLY_TO:
            raise InvalidPolicy(self.name, "apply-to", f"expected one of {', '.join(APPLY_TO)}")
        self._check_definition()
        try:
            object.__setattr__(self, "_pattern", Pattern(self.pattern))
        except BadPattern as error:
            raise InvalidPolicy(self.name, "pattern", str(error)) from None

    def _check_definition(self) -> None:
        if not self.definition:
            raise InvalidPolicy(self.name, "definition", "it is empty")
        unknown = self.unknown_keys()
        if unknown and not self.keeps_unknown:
            reason = "it is not recognised"
            if unknown[0] in CHECKS:
                reason = "it is not allowed in operator policies"
            raise InvalidPolicy(self.name, unknown[0], reason)
        known = {key: value for key, value in self.definition.items() if key not in unknown}
        for key, value in known.items():
            reason_against = CHECKS[key](value)
            if reason_against is not None:
                raise InvalidPolicy(self.name, key, reason_against)
        if fault := mirror_fault(known):
            raise InvalidPolicy(self.name, *fault)
        object.__setattr__(self, "effective", known)

    def check_put(self) -> None:
        """Check what a policy must keep that is put, beside what a stored one keeps.

        Raises:
            InvalidPolicy: names the key that cannot be.
        """
        for key in PUT_CHECKS.keys() & self.effective.keys():
            fault = PUT_CHECKS[key](self.effective[key])
            if fault is not None:
                raise InvalidPolicy(self.name, key, fault)

    @property
    def ran_out_for(self) -> str | None:
        """The first name for which the pattern ran out of time, and so did not match."""
        return self._pattern.ran_out_for

    def unknown_keys(self) -> list[str]:
        """The unknown keys; of an operator policy also the keys that only policies may have."""
        known = CHECKS.keys() & OPERATOR_KEYS if self.is_operator else CHECKS.keys()
        return [key for key in self.definition if key not in known]

    def applies_to_exchange(self, name: str, budget: MatchBudget) -> bool:
        """Tell whether the policy matches an exchange."""
        return self.is_for_exchanges() and self._pattern.matches(name, budget)

    def applies_to_queue(self, name: str, queue_type: str, budget: MatchBudget) -> bool:
        """Tell whether the policy matches a queue.

        Args:
            queue_type: classic, quorum or stream.
        """
        return self.is_for_queues(queue_type) and self._pattern.matches(name, budget)

    def is_for_exchanges(self) -> bool:
        """Tell whether the policy applies to exchanges, if their names match."""
        return self.apply_to in ("all", "exchanges")

    def is_for_queues(self, queue_type: str) -> bool:
        """Tell whether the policy applies to queues of a type, if their names match."""
        return self.apply_to in _GROUPS[queue_type]

    def check_time(self, name: str, budget: MatchBudget) -> None:
        """Check that the pattern can be matched with a name in time.

        Raises:
            InvalidPolicy: it takes longer than the budget.
        """
        try:
            self._pattern.matches_in_time(name, budget)
        except OutOfTime:
            reason = f"it takes too long to match with '{name}'"
            raise InvalidPolicy(self.name, "pattern", reason) from None


_GROUPS: Mapping[str, tuple[str, ...]] = {
    "classic": ("all", "queues", "classic_queues"),
    "quorum": ("all", "queues", "quorum_queues"),
    "stream": ("all", "queues", "streams"),
}


def _check_name(name: str) -> None:
    if not 1 <= len(name.encode(errors="replace")) <= NAME_BYTES_MAX or not name.isprintable():
        reason = f"a policy's name is 1 to {NAME_BYTES_MAX} bytes that can be printed"
        raise InvalidPolicy(name[:NAME_BYTES_MAX], "name", reason)


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
