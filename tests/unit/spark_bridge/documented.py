"""What docs/spark/spark.md says there is."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "spark" / "spark.md"


def documented_options(heading: str) -> set[str]:
    """Names in the first column of the table of options below a heading."""
    _, _, section = PAGE.read_text().partition(f"\n{heading}\n")
    section = re.split(r"\n## ", section)[0]
    _, _, table = section.partition("| Option |")
    lines = table.split("\n\n")[0].splitlines()[2:]
    return {name for line in lines for name in re.findall(r"`(\w+)`", line.split("|")[1])}
