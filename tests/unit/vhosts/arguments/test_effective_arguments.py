"""Arguments and policies together, as RabbitMQ combines them."""

from collections.abc import Mapping

import pytest

from routelog.vhosts.arguments.effective_arguments import effective_arguments, merged_definitions
from routelog.vhosts.arguments.policy import Policy


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
