"""A Python worker of Spark: it serves one task after the other, and collects its garbage after each."""

import gc
from functools import cache

from pyspark import TaskContext


def exempt_modules() -> None:
    """In a worker, once: what is loaded by now stays, and no collection looks at it again.

    Spark's daemon collects after every task. With packages of this size loaded that takes some 50 ms of
    a processor each time, more than most tasks of a micro-batch.
    """
    if TaskContext.get() is not None:
        _exempt()


@cache
def _exempt() -> None:
    gc.collect()  # garbage would stay, too
    gc.freeze()
