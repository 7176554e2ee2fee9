"""A policy: what it may say, and whom it is for."""

from collections.abc import Mapping
from typing import Any

import pytest

from routelog.vhosts.arguments.pattern import MatchBudget
from routelog.vhosts.arguments.policy import (
    CHECKS,
    OPERATOR_KEYS,
    Policy,
    effective_arguments,
    merged_definitions,
)
from routelog.vhosts.errors import InvalidPolicy

# Of every key, a value that it takes.
VALUES: Mapping[str, object] = {
    "alternate-exchange": "x",
    "cleanup-policy": "compact",
    "consumer-timeout": 1000,
    "dead-letter-exchange": "x",
    "dead-letter-routing-key": "k",
    "dead-letter-strategy": "at-least-once",
    "delete-retention": "1d",
    "delivery-limit": -1,
    "durability": "os",
    "local-max-age": "1h",
    "local-max-length-bytes": 1_000,
    "remote-storage": True,
    "delayed-retry-max": 60_000,
    "delayed-retry-min": 1_000,
    "delayed-retry-type": "failed",
    "expires": 1,
    "ha-mode": "exactly",
    "ha-params": 2,
    "ha-promote-on-failure": "always",
    "ha-promote-on-shutdown": "when-synced",
    "ha-sync-batch-size": 4096,
    "ha-sync-mode": "automatic",
    "initial-cluster-size": 3,
    "max-age": "7D",
    "max-in-memory-bytes": 0,
    "max-in-memory-length": 0,
    "max-length": 0,
    "max-length-bytes": 0,
    "message-ttl": 0,
    "min-compaction-lag": "0s",
    "min-in-sync": 2,
    "overflow": "reject-publish",
    "queue-leader-locator": "balanced",
    "queue-master-locator": "min-masters",
    "queue-mode": "lazy",
    "queue-version": 2,
    "stream-max-segment-size-bytes": 500_000_000,
    "target-group-size": 3,
}


def with_needed(key: str, value: object) -> dict[str, object]:
    needed = {"ha-mode": "exactly", "ha-params": 2} if key.startswith("ha-") else {}
    return needed | {key: value}


def test_every_key_is_tried() -> None:
    assert VALUES.keys() == CHECKS.keys()


@pytest.mark.parametrize("key", CHECKS)
def test_a_key_takes_its_value_and_refuses_others(key: str) -> None:
    Policy("p", ".*", with_needed(key, VALUES[key]))
    bad: object
    for bad in (None, 1.5, {}, not isinstance(VALUES[key], bool) or "yes", -2, [1]):
        with pytest.raises(InvalidPolicy, match=f"policy 'p': {key}"):
            Policy("p", ".*", with_needed(key, bad))


@pytest.mark.parametrize("key", CHECKS)
def test_operators_have_few_keys(key: str) -> None:
    if key in OPERATOR_KEYS:
        Policy("p", ".*", with_needed(key, VALUES[key]), is_operator=True)
    else:
        with pytest.raises(InvalidPolicy, match="not allowed in operator policies"):
            Policy("p", ".*", {key: VALUES[key]}, is_operator=True)


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("name", {"name": ""}),
        ("name", {"name": "a\nb"}),
        ("name", {"name": "é" * 128}),
        ("pattern", {"pattern": "("}),
        ("priority", {"priority": 2**31}),
        ("apply-to", {"apply_to": "everything"}),
        ("definition", {"definition": {}}),
        ("federation-upstream", {"definition": {"federation-upstream": "all"}}),
        ("ha-params", {"definition": {"ha-params": 2}}),
    ],
)
def test_a_bad_part_is_named(part: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        Policy(**{"name": "p", "pattern": ".*", "definition": {"max-length": 1}} | changes)
    assert caught.value.part == part


@pytest.mark.parametrize(
    ("apply_to", "types"),
    [
        ("all", {"classic", "quorum", "stream", "exchange"}),
        ("queues", {"classic", "quorum", "stream"}),
        ("exchanges", {"exchange"}),
        ("classic_queues", {"classic"}),
        ("quorum_queues", {"quorum"}),
        ("streams", {"stream"}),
    ],
)
def test_it_is_for_what_it_says_and_whose_name_matches(apply_to: str, types: set[str]) -> None:
    policy = Policy("p", "^a", {"max-length": 1}, apply_to=apply_to)
    found = {
        each
        for each in ("classic", "quorum", "stream")
        if policy.applies_to_queue("a", each, MatchBudget())
    }
    found |= {"exchange"} if policy.applies_to_exchange("a", MatchBudget()) else set()
    assert found == types
    assert not policy.applies_to_queue("b", "classic", MatchBudget())
    assert not policy.applies_to_exchange("b", MatchBudget())


def policy(definition: Mapping[str, object], *, operator: bool = False) -> Policy | None:
    return Policy("p", "", definition, is_operator=operator) if definition else None


@pytest.mark.parametrize(
    ("arguments", "own", "operators", "values"),
    [
        ({}, {}, {}, {}),
        ({"x-max-length": 5}, {}, {}, {"x-max-length": 5}),
        ({}, {"max-length": 5}, {}, {"x-max-length": 5}),
        # Numbers: the lower one, wherever it stands.
        ({"x-max-length": 5}, {"max-length": 4}, {}, {"x-max-length": 4}),
        ({"x-max-length": 4}, {"max-length": 5}, {}, {"x-max-length": 4}),
        ({"x-max-length": 4}, {"max-length": 5}, {"max-length": 3}, {"x-max-length": 3}),
        ({}, {"max-length": 3}, {"max-length": 5}, {"x-max-length": 3}),
        ({"x-message-ttl": 0}, {"message-ttl": 5}, {}, {"x-message-ttl": 0}),
        # Words: the argument, then the operator.
        ({"x-overflow": "drop-head"}, {"overflow": "reject-publish"}, {}, {"x-overflow": "drop-head"}),
        ({}, {"overflow": "drop-head"}, {"overflow": "reject-publish"}, {"x-overflow": "reject-publish"}),
        ({"x-durability": "os"}, {"durability": "disk"}, {}, {"x-durability": "os"}),
        ({"x-dead-letter-exchange": "x"}, {"dead-letter-routing-key": "k"}, {},
         {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "k"}),
        # Ages: the shorter one.
        ({"x-max-age": "2D"}, {"max-age": "47h"}, {}, {"x-max-age": "47h"}),
        ({"x-max-age": "2D"}, {"max-age": "49h"}, {}, {"x-max-age": "2D"}),
        # -1 deliveries is no limit.
        ({"x-delivery-limit": -1}, {"delivery-limit": 5}, {}, {"x-delivery-limit": 5}),
        ({}, {"delivery-limit": 5}, {"delivery-limit": -1}, {"x-delivery-limit": 5}),
        # What is not about queues stays away.
        ({}, {"alternate-exchange": "x", "queue-mode": "lazy"}, {}, {}),
        # Whoever asks for replicas has confirms of all of them, unless something else is asked for.
        ({}, {"ha-mode": "all"}, {}, {"x-durability": "mirrored"}),
        ({}, {}, {"ha-mode": "all"}, {"x-durability": "mirrored"}),
        ({"x-durability": "os"}, {"ha-mode": "all"}, {}, {"x-durability": "os"}),
        ({}, {"ha-mode": "all", "durability": "memory"}, {}, {"x-durability": "memory"}),
    ],
)  # fmt: skip
def test_arguments_and_policies_are_combined(
    arguments: Mapping[str, object],
    own: Mapping[str, object],
    operators: Mapping[str, object],
    values: Mapping[str, object],
) -> None:
    found = effective_arguments(arguments, policy(own), policy(operators, operator=True))
    assert found.values == values
    assert (found.policy is None, found.operator_policy is None) == (not own, not operators)


def test_without_policies_the_arguments_are_not_copied() -> None:
    arguments = {"x-max-length": 1}
    assert effective_arguments(arguments, None, None).values is arguments


def test_a_listing_shows_what_both_policies_say() -> None:
    own, operators = (
        policy({"max-length": 5, "ha-mode": "all"}),
        policy({"max-length": 3}, operator=True),
    )
    assert merged_definitions(own, operators) == {"max-length": 3, "ha-mode": "all"}
    assert merged_definitions(None, operators) == {"max-length": 3}
    assert merged_definitions(None, None) == {}
