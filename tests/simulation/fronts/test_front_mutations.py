"""Each rule of sessions is needed: without it, the simulation finds a violation."""

import pytest
from simulation.fronts.cluster import run
from simulation.fronts.mutations import FRONT_MUTATIONS, switched_off
from support.sampling import sampled

SEEDS_MAX = 300

# Where the search begins for rules that matter only in rare moments: the first seed that has one.
FIRST_SEEDS: dict[str, int] = {}


@pytest.mark.parametrize("rule", FRONT_MUTATIONS)
def test_a_rule_names_what_there_is(rule: str) -> None:
    with switched_off(rule):  # an error, where something has another name now
        pass


@pytest.mark.parametrize("rule", sampled(FRONT_MUTATIONS, 6))
def test_a_rule_that_is_switched_off_is_missed(rule: str) -> None:
    first = FIRST_SEEDS.get(rule, 0)
    with switched_off(rule):
        assert any(run(seed).violation for seed in range(first, first + SEEDS_MAX))
