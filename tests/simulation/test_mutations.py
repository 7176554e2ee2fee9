"""Each rule of the protocol is needed: without it, the simulation finds a violation."""

import pytest
from simulation.broker_mutations import BROKER_MUTATIONS
from simulation.cluster import run
from simulation.mutations import MUTATIONS, switched_off
from support.sampling import sampled

SEEDS_MAX = 1_000
BROKER_SEEDS_MAX = 60

# Where the search begins for rules that matter only in rare moments: the first seed that has one.
FIRST_SEEDS = {
    "a proposal without an answer is forgotten": 1523,
    "a leader whose lease is lost goes on": 2185,
    "a member takes a copy of what its leader knows to be committed": 106,
    "a member of the set gives up what it has": 400,
    "a schedule is told of what is not committed": 124,
    "a truncation is answered before it is durable": 527,
    "what is applied is cut": 71,
    "who has promised less than another node claims": 944,
}


@pytest.mark.parametrize("rule", MUTATIONS | BROKER_MUTATIONS)
def test_a_rule_names_what_there_is(rule: str) -> None:
    with switched_off(rule):  # an error, where something has another name now
        pass


@pytest.mark.parametrize("rule", sampled(MUTATIONS, 6))
def test_a_rule_that_is_switched_off_is_missed(rule: str) -> None:
    first = FIRST_SEEDS.get(rule, 0)
    with switched_off(rule):
        seeds = range(first, first + SEEDS_MAX)
        assert any(run(seed, with_brokers=False).violation for seed in seeds)


@pytest.mark.parametrize("rule", sampled(BROKER_MUTATIONS, 6))
def test_a_rule_of_brokers_that_is_switched_off_is_missed(rule: str) -> None:
    first = FIRST_SEEDS.get(rule, 0)
    with switched_off(rule):
        seeds = range(first, first + BROKER_SEEDS_MAX)
        assert any(run(seed, with_brokers=True).violation for seed in seeds)
