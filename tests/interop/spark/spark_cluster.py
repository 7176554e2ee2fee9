"""A standalone cluster of Spark on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path

import pyarrow
import pyspark

ROOT = Path(__file__).parents[3]
SPARK_HOME = Path(pyspark.__file__).parent
WAIT_SECONDS = 600

MASTER_READY = re.compile(r"Starting Spark master at (spark://\S+)")
WORKER_READY = re.compile(r"Successfully registered with master")


class Daemon:
    """A process of Spark's own that waits to be used.

    Args:
        name: of the class that it runs.
        environment: beside what all have.
    """

    def __init__(self, name: str, *arguments: str, **environment: str) -> None:
        # No path to any Python package: what executors import is what their interpreter has.
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
        }
        self._output: list[str] = []
        self._grown = threading.Condition()
        self._process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), name, *arguments],
            env={
                **inherited,
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that one signal ends a worker's executors too
        )
        threading.Thread(target=self._read, daemon=True).start()

    def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The first line that has it."""
        deadline = time.monotonic() + WAIT_SECONDS
        with self._grown:
            while True:
                for line in self._output:
                    if match := pattern.search(line):
                        return match
                assert self._process.poll() is None, "".join(self._output)
                assert self._grown.wait(deadline - time.monotonic()), "".join(self._output)

    def kill(self) -> None:
        """End it, and what it started, at once."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            with self._grown:
                self._output.append(line)
                self._grown.notify_all()
        self._process.wait()
        with self._grown:
            self._grown.notify_all()


class SparkCluster:
    """A master and workers.

    Attributes:
        url: what a driver calls the master.
    """

    def __init__(self, directory: Path, workers: int, *, cores: int) -> None:
        self.workers: list[Daemon] = []
        self._master = Daemon(
            "org.apache.spark.deploy.master.Master",
            *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
        )
        try:
            self.url = self._master.wait_for(MASTER_READY)[1]
            for number in range(workers):
                host = f"127.0.0.{number + 1}"  # a speculative attempt runs on another host
                worker = Daemon(
                    "org.apache.spark.deploy.worker.Worker",
                    *("--host", host, "--webui-port", "0"),
                    *("--cores", str(cores), "--memory", "1g"),
                    *("--work-dir", str(directory / f"worker-{number}"), self.url),
                    SPARK_LOCAL_IP=host,
                )
                self.workers.append(worker)
            for worker in self.workers:
                worker.wait_for(WORKER_READY)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all processes."""
        for daemon in (*self.workers, self._master):
            daemon.kill()


def executor_python(directory: Path) -> Path:
    """An interpreter that has what RouteLog depends on, and not RouteLog.

    Paths in a .pth file are not searched for further ones, so an editable installation stays unseen.
    """
    venv.create(directory)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = directory / "lib" / version / "site-packages"
    third_party = Path(pyarrow.__file__).parents[1]
    (packages / "third_party.pth").write_text(f"{third_party}\n")
    return directory / "bin" / "python"


def install(python: Path) -> None:
    """Copy what of RouteLog executors need into an interpreter's environment."""
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    sources, ours = ROOT / "src", packages / "routelog"
    for package in ("log_backend", "spark_bridge"):
        ignored = shutil.ignore_patterns("__pycache__", "*.c")
        shutil.copytree(ROOT / package, ours / package, ignore=ignored)
    shutil.copy(sources / "routelog" / "__init__.py", ours)
    shutil.copy(sources / "pyspark_routelog.py", packages)
