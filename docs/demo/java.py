"""The Java that Spark needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

VERSION_MIN = 17  # Spark 4 refuses older ones
_ADVICE = (
    "install a Java runtime (Debian, Ubuntu: apt-get install default-jre-headless; "
    "`make demo` does it when it runs as root) or point JAVA_HOME to one"
)


class JavaMissing(Exception):
    """There is no Java that Spark could start; says what to install."""


def check_java() -> int:
    """Find the Java that Spark will use.

    Returns:
        Its major version.

    Raises:
        JavaMissing: none is there, or it is too old.
    """
    program = _program()
    if program is None:
        raise JavaMissing(f"Spark needs Java, and there is none on PATH or in JAVA_HOME: {_ADVICE}")
    answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', answer.stderr)
    if version is None:
        raise JavaMissing(f"{program} does not tell its version: {_ADVICE}")
    if int(version[1]) < VERSION_MIN:
        raise JavaMissing(f"Spark needs Java {VERSION_MIN}, {program} is older: {_ADVICE}")
    return int(version[1])


def _program() -> str | None:
    """Spark looks into JAVA_HOME first, and does not fall back to PATH."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
