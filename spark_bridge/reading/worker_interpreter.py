"""The interpreter of Spark's Python workers, which has to be one that RouteLog is installed in."""

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from routelog.spark_bridge.logs.errors import WorkersLackRouteLog

if TYPE_CHECKING:
    from pyspark import SparkContext

_CHOICE = "PYSPARK_PYTHON"
_PROBE_SECONDS = 30  # an interpreter on a busy machine starts in one or two
# What workers import, and the version that PySpark wants to be the driver's.
_PROBE = """
import sys
from importlib.util import find_spec
sys.exit(sys.version_info[:2] != ({}, {}) or not (find_spec("routelog") and find_spec("pyarrow")))
"""


def choose_worker_interpreter(context: "SparkContext") -> None:
    """Let a local session's workers be this interpreter; elsewhere, and where one was chosen, check it.

    Spark starts `python3` of PATH when nothing is chosen, which is another one than that of a driver in a
    virtual environment.

    Raises:
        WorkersLackRouteLog: the interpreter that was chosen cannot import RouteLog, or has another version.
    """
    is_local = str(context.master).startswith("local")
    if is_local and not os.environ.get(_CHOICE):
        context.pythonExec = sys.executable
    elif not _can_work(context.pythonExec):
        raise WorkersLackRouteLog(context.pythonExec, sys.executable)


def _can_work(interpreter: str) -> bool:
    # As spelled: the interpreters of virtual environments are links to the same file.
    if interpreter == sys.executable:
        return True
    probe = _PROBE.format(*sys.version_info[:2])
    try:
        # One that is there on the executors alone fails, too: the driver's own workers plan with it.
        return not subprocess.run(
            [interpreter, "-c", probe], capture_output=True, timeout=_PROBE_SECONDS
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False
