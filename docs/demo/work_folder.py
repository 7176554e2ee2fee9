"""The one folder that a run of the demo writes to."""

from __future__ import annotations

import shutil
from pathlib import Path

_MARKER = "written-by-routelog-demo"  # only a folder with this file in it is ever wiped


class NotOurFolder(Exception):
    """The folder holds files that no run of the demo wrote; nothing was touched."""


class WorkFolder:
    """Where everything of one run lies: the broker's data, logs, reports, Spark's scratch space."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.data = self.root / "data"
        self.logs = self.root / "logs"
        self.reports = self.root / "reports"
        self.scratch = self.root / "scratch"

    def wipe(self) -> None:
        """Empty the folder, or make it.

        Raises:
            NotOurFolder: it is not empty and no earlier run made it.
        """
        if self.root.exists() and not self._is_ours():
            raise NotOurFolder(f"{self.root} holds files of somebody else; choose another --folder")
        shutil.rmtree(self.root, ignore_errors=True)
        for folder in (self.data, self.logs, self.reports, self.scratch):
            folder.mkdir(parents=True)
        (self.root / _MARKER).touch()

    def _is_ours(self) -> bool:
        if not self.root.is_dir():
            return False
        return (self.root / _MARKER).exists() or not any(self.root.iterdir())
