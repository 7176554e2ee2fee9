"""Each rule of sessions is needed: without it, the simulation finds a violation."""

import pytest
from simulation.fronts.cluster import run
from simulation.fronts.mutations import FRONT_MUTATIONS, switched_off
from support.sampling import sampled

SEEDS_MAX = 400  # one of the first, until the histories change

# A seed that misses each rule: written anew when that takes long.
FIRST_SEEDS = {
    "a session's end confirms what was sent": 8,
    "a batch is confirmed before the journal has it": 8,
    "what a queue refuses is confirmed": 0,
    "what is not confirmed is sent again": 8,
    "batches are sent in another order": 8,
    "deliveries of a lost session are settled in the next one": 419,
    "what a lost session had does not come back": 14,
    "a change is answered before others know it": 8,
    "a front says at once that it knows": 0,
    "a front without a session routes": 102,
    "a front that stood still routes": 107,
    "beats count behind a change that is not known": 304,
    "a leader waits for no session of the one before": 15,
    "a session is used before its leader's definitions are known": 15,
    "a node that is late is not waited for": 304,
    "a transaction is two blocks": 3,
    "a front that does not read is sent all": 8,
    "a front's publishers wait for no confirms": 7,
    "calls of a lost session end never": 0,
    "consumers of a lost session stay away": 8,
    "what a closed connection had of its own stays": 2,
}


@pytest.mark.parametrize("rule", FRONT_MUTATIONS)
def test_a_rule_names_what_there_is(rule: str) -> None:
    with switched_off(rule):  # an error, where something has another name now
        pass


def test_each_rule_is_missed_by_a_seed() -> None:
    assert FIRST_SEEDS.keys() == FRONT_MUTATIONS.keys()


@pytest.mark.parametrize("rule", sampled(FIRST_SEEDS, 6))
def test_a_rule_that_is_switched_off_is_missed(rule: str) -> None:
    first = FIRST_SEEDS[rule]
    with switched_off(rule):
        assert any(run(seed).violation for seed in range(first, first + SEEDS_MAX))
