"""A policy: what it may say, and whom it is for."""

from collections.abc import Mapping
from typing import Any

import pytest

from routelog.vhosts.arguments.match_budget import MatchBudget
from routelog.vhosts.arguments.policy import CHECKS, OPERATOR_KEYS, Policy
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
