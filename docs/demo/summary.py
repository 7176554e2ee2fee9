"""What the demo expected, what it got, and whether the two are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.table import Table

Figure = int | str


@dataclass(frozen=True)
class Check:
    """Two figures that have to be equal."""

    name: str
    expected: Figure
    actual: Figure

    @property
    def equal(self) -> bool:
        """Whether they are."""
        return self.expected == self.actual


@dataclass
class Summary:
    """Collects checks, figures to show beside them, and the totals of the last line."""

    rows: list[Check | tuple[str, str]] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)

    def check(self, name: str, expected: Figure, actual: Figure) -> None:
        """Add two figures that have to be equal."""
        self.rows.append(Check(name, expected, actual))

    def check_all(
        self, prefix: str, expected: Mapping[str, int], actual: Mapping[str, int]
    ) -> None:
        """Add a check for every name of either side."""
        for name in dict.fromkeys((*expected, *actual)):
            self.check(prefix + name, expected.get(name, 0), actual.get(name, 0))

    def note(self, name: str, figure: str) -> None:
        """Add a figure that nothing is expected of."""
        self.rows.append((name, figure))

    @property
    def unequal(self) -> Sequence[Check]:
        """The checks that failed."""
        return [row for row in self.rows if isinstance(row, Check) and not row.equal]

    def table(self) -> Table:
        """All of it for the eye."""
        table = Table(title="What was expected, and what the broker did")
        table.add_column("figure", overflow="fold")
        table.add_column("expected", justify="right", overflow="fold")
        table.add_column("actual", justify="right", overflow="fold")
        table.add_column("equal", justify="center")
        for row in self.rows:
            if isinstance(row, Check):
                mark = "[green]yes[/]" if row.equal else "[bold red]NO[/]"
                table.add_row(row.name, _shown(row.expected), _shown(row.actual), mark)
            else:
                table.add_row(row[0], "", row[1], "")
        return table

    def line(self) -> str:
        """All of it in one plain line."""
        totals = " ".join(f"{name}={total}" for name, total in self.totals.items())
        faults = "; ".join(f"{c.name}: expected {c.expected}, got {c.actual}" for c in self.unequal)
        return f"demo: {totals} " + (f"NOT EQUAL: {faults}" if faults else "all equal")


def _shown(figure: Figure) -> str:
    return f"{figure:,}" if isinstance(figure, int) else figure
