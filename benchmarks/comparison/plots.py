"""Small drawings of the figures, as SVG."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from routelog.benchmarks.comparison.growth import Grown

_INCHES = (5.2, 2.8)


def draw_curve(grown: Sequence[Grown], path: Path) -> None:
    """Cost of a message as one thing grows, a line for each broker; both axes logarithmic."""
    figure = Figure(figsize=_INCHES, layout="constrained")
    axes = figure.subplots()
    for each in grown:
        points = list(each.costs)
        axes.plot(
            points, [each.costs[p].value * 1e6 for p in points], marker="o", label=each.broker
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel=grown[0].curve.axis,
        ylabel="µs for one message",
        ylim=_limits(grown),
    )
    axes.grid(visible=True, which="major", linewidth=0.3)
    axes.legend(frameon=False)
    _save(figure, path)


def draw_ratios(ratios: dict[str, float], peer: str, path: Path) -> None:
    """How many times better than the peer, a bar for each case."""
    figure = Figure(figsize=(_INCHES[0], 0.6 + 0.24 * len(ratios)), layout="constrained")
    axes = figure.subplots()
    names = list(ratios)[::-1]
    bars = axes.barh(names, [ratios[name] for name in names])
    axes.bar_label(bars, fmt="%.1f", padding=2)
    axes.axvline(1, color="black", linewidth=0.6)
    axes.set(xscale="log", xlabel=f"times {peer}")
    axes.margins(x=0.12)
    _save(figure, path)


def _limits(grown: Sequence[Grown]) -> tuple[float, float]:
    """At least two decades, so that noise does not look like growth."""
    costs = [cost.value * 1e6 for each in grown for cost in each.costs.values()]
    return min(costs) / 3, max(*costs, min(costs) * 30) * 3


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Text stays text, and the same figures give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "routelog"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
