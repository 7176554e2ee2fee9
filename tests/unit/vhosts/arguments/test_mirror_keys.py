"""The keys for mirrored queues are valid where RabbitMQ takes them, and refused in its words."""

from typing import Any

import pytest

from routelog.vhosts.arguments.policy import Policy
from routelog.vhosts.errors import InvalidPolicy

ALL = {"ha-mode": "all"}
NO_MODE = "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
EITHER = 'must be "always" or "when-synced", got'

# What RabbitMQ 3.10 answered to each over HTTP; strings there are written <<"x">>.
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"ha-mode": "some"}, "ha-mode", '"some" is not a valid ha-mode value'),
    (ALL | {"ha-params": 2}, "ha-params", 'ha-mode="all" does not take parameters'),
    ({"ha-mode": "exactly"}, "ha-params", 'ha-mode="exactly" takes an integer, none given'),
    ({"ha-mode": "exactly", "ha-params": "2"}, "ha-params", 'takes an integer, "2" given'),
    ({"ha-mode": "exactly", "ha-params": 0}, "ha-params", "takes an integer, 0 given"),
    ({"ha-mode": "nodes"}, "ha-params", 'ha-mode="nodes" takes a list, none given'),
    ({"ha-mode": "nodes", "ha-params": []}, "ha-params", "list must be non-empty"),
    ({"ha-mode": "nodes", "ha-params": "a"}, "ha-params", 'takes a list, "a" given'),
    ({"ha-mode": "nodes", "ha-params": ["a", 1]}, "ha-params", "[1] was not a string"),
    ({"ha-sync-mode": "automatic"}, "ha-sync-mode", NO_MODE),
    ({"ha-params": 2}, "ha-params", NO_MODE),
    (ALL | {"ha-sync-mode": "x"}, "ha-sync-mode", 'be "manual" or "automatic", got "x"'),
    (ALL | {"ha-sync-batch-size": 0}, "ha-sync-batch-size", "greater than 0, 0 given"),
    (ALL | {"ha-sync-batch-size": "a"}, "ha-sync-batch-size", 'greater than 0, "a" given'),
    (ALL | {"ha-promote-on-shutdown": "x"}, "ha-promote-on-shutdown", f'{EITHER} "x"'),
    (ALL | {"ha-promote-on-failure": 1}, "ha-promote-on-failure", f"{EITHER} 1"),
    ({"min-in-sync": 0}, "min-in-sync", "value 0 is not between 1"),
    ({"min-in-sync": "2"}, "min-in-sync", "unacceptable type"),
]


@pytest.mark.parametrize("is_operator", [False, True])
@pytest.mark.parametrize(
    "definition",
    [
        ALL,
        {"ha-mode": "exactly", "ha-params": 2},
        {"ha-mode": "nodes", "ha-params": ["rabbit@a", "rabbit@b"]},
        ALL | {"ha-sync-mode": "automatic", "min-in-sync": 2},
        {"min-in-sync": 3},
    ],
)
def test_policies_and_operator_policies_take_what_rabbitmq_does(
    definition: dict[str, Any], is_operator: bool
) -> None:
    assert Policy("p", "", definition, is_operator=is_operator).effective == definition


@pytest.mark.parametrize(("definition", "key", "reason"), REFUSED)
def test_others_are_refused_in_its_words(definition: dict[str, Any], key: str, reason: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        Policy("p", "", definition)
    assert caught.value.part == key
    assert reason in str(caught.value)
