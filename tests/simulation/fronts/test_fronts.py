"""A sample of the histories of fronts that `make simulate` lives through."""

import os
from collections import Counter

import pytest
from simulation.fronts.cluster import run

SEEDS = int(os.environ.get("ROUTELOG_TEST_SEEDS", "20"))
FIRST = int(os.environ.get("ROUTELOG_TEST_SEED", "0")) * SEEDS
PIECE = 10

# What a sample must have been through, or it has shown nothing.
FAULTS = ("kill", "pause", "cut", "command", "break", "stall", "slow", "late")
COMPOUNDS = ("lone", "asked late", "unstored")
EVENTS = ("confirms", "no confirms", "deliveries", "redeliveries", "moves", "probes", "changes")
CERTAINTIES = ("acks that are sure", "connections lost", "leaders")

_counts: Counter[str] = Counter()


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, PIECE))
def test_clients_of_all_nodes_are_told_what_is_true(first: int) -> None:
    for seed in range(first, min(first + PIECE, FIRST + SEEDS)):
        outcome = run(seed)
        _counts.update(outcome.counts)
        if outcome.violation is not None:
            pytest.fail("\n".join([*run(seed, traces=True).timeline[-200:], f"seed {seed}"]))


def test_the_faults_were_there() -> None:
    if not _counts:
        pytest.skip("no seed was run")
    assert not [name for name in (*FAULTS, *COMPOUNDS, *EVENTS, *CERTAINTIES) if _counts[name] == 0]
