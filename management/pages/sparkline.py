"""Sparklines: a small line beside a number, drawn here, as a list has many of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from routelog.management.pages.charts import AGE_SECONDS, samples

WIDTH, HEIGHT = 100, 20
STEP_SECONDS = 20  # 31 points, some 3 pixels apart: 0.2 ms a queue

# The query of the API for the rows of a list with sparklines.
SAMPLED = {"lengths_age": str(AGE_SECONDS), "lengths_incr": str(STEP_SECONDS)}


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A line.

    Attributes:
        points: of an SVG polyline, in a box of `WIDTH` and `HEIGHT`.
    """

    points: str
    least: float
    most: float
    latest: float


def sparkline(details: Mapping[str, Any]) -> Sparkline:
    """The line of the API's samples."""
    values = samples(details)[1]
    return Sparkline(_points(values), min(values), max(values), values[-1])


def _points(values: Sequence[float]) -> str:
    if min(values) == max(values):
        values = (values[0], values[0])  # most lines of a long list are flat: their ends are enough
    # A pixel is left above and below, so that the line is not cut to half of its width. 0 is at the bottom.
    step = WIDTH / max(1, len(values) - 1)
    scale = (HEIGHT - 2) / max(1, *values)
    points = ((at * step, HEIGHT - 1 - value * scale) for at, value in enumerate(values))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
