"""A sample of the histories that `make simulate` lives through."""

import os
from collections import Counter

import pytest
from simulation.cluster import run

SEEDS = int(os.environ.get("ROUTELOG_TEST_SEEDS", "60"))
FIRST = int(os.environ.get("ROUTELOG_TEST_SEED", "0")) * SEEDS
PIECE = 20
FOUND = {  # whether with brokers
    400_573: False,  # a coordinator that was set back gave a revision twice
    5_199: True,  # the checker's broker had merged batches that a leader had not, and expired them later
    20_038: True,  # a segment was left without an index when it waited for its removal and another one began
    10_055: True,  # the next message of a queue was in a segment only
    620_062: True,  # a leader was killed in the end with a block that its replica did not know yet
    20_131: True,  # timers of a leader that did not serve stood still, and copies waited for one
}

# What a sample must have been through, or it has shown nothing.
FAULTS = ("kill", "power", "pause", "cut", "flaky", "hang", "wipe", "rot", "coordinator", "command")
EVENTS = ("confirms", "leaders", "records", "truncations")

_counts: Counter[str] = Counter()


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, PIECE))
def test_every_invariant_holds_whatever_fails(first: int) -> None:
    for seed in range(first, min(first + PIECE, FIRST + SEEDS)):
        outcome = run(seed)
        _counts.update(outcome.counts)
        if outcome.violation is not None:
            pytest.fail("\n".join([*run(seed, traces=True).timeline[-200:], f"seed {seed}"]))


@pytest.mark.parametrize(("seed", "with_brokers"), FOUND.items())
def test_what_was_found_once_is_not_there(seed: int, with_brokers: bool) -> None:
    assert run(seed, with_brokers=with_brokers).violation is None


def test_the_faults_were_there() -> None:
    if not _counts:
        pytest.skip("no seed was run")
    assert not [name for name in (*FAULTS, *EVENTS) if _counts[name] == 0]


def test_a_seed_has_one_history() -> None:
    first, second = run(5, traces=True), run(5, traces=True)
    assert first.violation is None
    assert len(first.timeline) > 100
    assert first == second
