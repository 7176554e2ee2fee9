"""Saves garbage collections in Spark's Python workers, which run one task after the other."""

import gc
from functools import cache

from pyspark import TaskContext


def exempt_modules() -> None:
    """In a worker, exempt all objects that are loaded now from garbage collection; only the first call does so.

    Spark's daemon collects garbage after every task. With large packages loaded, that takes some 50 ms of
    processor time, more than most tasks of a micro-batch.
    """
    if TaskContext.get() is not None:
        _exempt()


@cache
def _exempt() -> None:
    gc.collect()  # else garbage would stay, too
    gc.freeze()
