"""Processes that put load on a broker."""

import gc

from routelog.benchmarks.traffic.processes import Processes


def test_a_garbage_collection_of_a_process_leaves_its_parents_objects_alone() -> None:
    # Some 60 ms went into them, in the middle of a run: the latency of whatever was measured.
    gc.unfreeze()
    gc.collect()
    inherited = len(gc.get_objects())
    with Processes() as processes:
        child = processes.start(lambda: len(gc.get_objects()))
        processes.join()
        (own,) = processes.results([child])
    assert inherited > 10_000
    assert own < 1_000
