"""Spark's Python workers: their interpreter, for which RouteLog must be installed, and their garbage
collections.
"""

import gc
import os
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

from routelog.spark_bridge.logs.errors import WorkersLackRouteLog

if TYPE_CHECKING:
    from pyspark import SparkContext


_CHOICE = "PYSPARK_PYTHON"
_PROBE_SECONDS = 30  # on a busy machine, an interpreter starts in one or two
# PySpark requires the driver's version of Python; workers import these packages.
_PROBE = """
import sys
from importlib.util import find_spec
sys.exit(sys.version_info[:2] != ({}, {}) or not (find_spec("routelog") and find_spec("pyarrow")))
"""


def choose_worker_interpreter(context: "SparkContext") -> None:
    """Use this interpreter for the workers of a local session; otherwise check the chosen interpreter.

    By default Spark starts the `python3` of PATH, which is another one if the driver runs in a virtual
    environment.

    Raises:
        WorkersLackRouteLog: the chosen interpreter cannot import RouteLog, or has another version.
    """
    is_local = str(context.master).startswith("local")
    if is_local and not os.environ.get(_CHOICE):
        context.pythonExec = sys.executable
    elif not _can_work(context.pythonExec):
        raise WorkersLackRouteLog(context.pythonExec, sys.executable)


def _can_work(interpreter: str) -> bool:
    # Compare the spelling: interpreters of virtual environments are links to one file.
    if interpreter == sys.executable:
        return True
    probe = _PROBE.format(*sys.version_info[:2])
    try:
        # It must exist on the driver, too: Spark plans in a worker there.
        return not subprocess.run(
            [interpreter, "-c", probe], capture_output=True, timeout=_PROBE_SECONDS
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def exempt_modules() -> None:
    """In a worker, exempt all objects that are loaded now from garbage collection; only the first call does so.

    Spark's daemon collects garbage after every task. With large packages loaded, that takes some 50 ms of
    processor time, more than most tasks of a micro-batch.
    """
    from pyspark import TaskContext  # an extra, which the choice of an interpreter does not need

    if TaskContext.get() is not None:
        _exempt()


@cache
def _exempt() -> None:
    gc.collect()  # else garbage would stay, too
    gc.freeze()
