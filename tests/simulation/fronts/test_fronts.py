"""A sample of the histories of fronts that `make simulate` lives through."""

import os
from collections import Counter

import pytest
from simulation.broker import SCHEDULERS
from simulation.fronts.cluster import run
from simulation.loop import Loop

SEEDS = int(os.environ.get("ROUTELOG_TEST_SEEDS", "20"))
FIRST = int(os.environ.get("ROUTELOG_TEST_SEED", "0")) * SEEDS
PIECE = 10
OF_ONE_HISTORY = (0, 3)  # where the threads of a process, or the order of its sets, would tell

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


@pytest.mark.parametrize("seed", OF_ONE_HISTORY)
def test_a_seed_has_one_history(seed: int) -> None:
    first, second = run(seed, traces=True), run(seed, traces=True)
    assert first.violation is None
    assert len(first.timeline) > 100
    assert first == second


def test_nothing_is_left_of_a_history() -> None:
    run(8)
    assert not [each for each in SCHEDULERS if isinstance(each, Loop)]


def test_the_faults_were_there() -> None:
    if not _counts:
        pytest.skip("no seed was run")
    assert not [name for name in (*FAULTS, *COMPOUNDS, *EVENTS, *CERTAINTIES) if _counts[name] == 0]
