"""System calls of a running process that fail, on some of its files: strace injects the error."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ATTACH_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0


class StraceRefused(Exception):
    """strace is not there, or may not attach here; the text says which."""


@contextmanager
def syscall_fault(process: int, calls: str, error: str, files: Iterable[Path]) -> Iterator[None]:
    """Let all such calls of a process on some files fail, while this lasts.

    Args:
        calls: names of system calls, with commas.

    Raises:
        StraceRefused: it cannot be done here.
    """
    program = shutil.which("strace")
    if program is None:
        raise StraceRefused("strace is not installed")
    paths = [argument for path in files for argument in ("-P", str(path))]
    inject = ["-e", f"trace={calls}", "-e", f"inject={calls}:error={error}"]
    tracer = subprocess.Popen(
        [program, "-f", "-o", os.devnull, *inject, *paths, "-p", str(process)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_until_attached(tracer)
        yield
    finally:
        tracer.send_signal(signal.SIGINT)  # it detaches, or has ended with the process
        tracer.wait(STOP_SECONDS_MAX)


def _wait_until_attached(tracer: subprocess.Popen[str]) -> None:
    stderr = tracer.stderr
    assert stderr is not None
    attached = threading.Event()
    said: list[str] = []

    def read() -> None:
        with stderr:
            for line in stderr:
                if " attached" in line:
                    attached.set()
                elif not attached.is_set():
                    said.append(line)
        attached.set()

    threading.Thread(target=read, daemon=True).start()
    if not attached.wait(ATTACH_SECONDS_MAX) or said:
        raise StraceRefused(f"strace: {''.join(said).strip() or 'it does not attach'}")
