"""The virtual environment in which the suites run: theirs, not the project's."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def environment(folder: Path, sources: Iterable[Path]) -> Path:
    """The `bin` folder of an environment with these distributions and what their tests need.

    Raises:
        subprocess.CalledProcessError: pip could not install something.
    """
    programs = folder / "bin"
    wanted = "\n".join([REQUIREMENTS.read_text(), *map(str, sources), sys.version])
    installed = folder / "installed.txt"
    if installed.exists() and installed.read_text() == wanted:
        return programs
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "-r", str(REQUIREMENTS), *map(str, sources)], check=True)
    installed.write_text(wanted)
    return programs
