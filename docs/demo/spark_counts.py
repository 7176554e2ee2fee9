"""What Spark found in the log of the audit queue."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class SparkCounts:
    """Events and opened files, counted by Spark."""

    events: dict[str, int]  # by name, most frequent first
    opened: list[tuple[str, int]]  # files, most often opened first

    @property
    def read(self) -> int:
        """How many events there are."""
        return sum(self.events.values())

    @classmethod
    def load(cls, path: Path) -> SparkCounts:
        """The counts that `save` has written."""
        return cls(**json.loads(path.read_text()))

    def save(self, path: Path) -> None:
        """Write the counts as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2))
