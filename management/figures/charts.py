"""Charts of the last ten minutes: the latest figures are text, and a script draws the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

AGE_SECONDS = 600  # all that is kept
STEP_SECONDS = 10  # two samples: 61 times of a queue's fifteen numbers take 2 ms

# The query of the API for one thing with charts.
SAMPLED = {
    f"{kind}_{word}": str(seconds)
    for kind in ("lengths", "msg_rates", "data_rates")
    for word, seconds in (("age", AGE_SECONDS), ("incr", STEP_SECONDS))
}

_LENGTHS = {"messages_ready": "Ready", "messages_unacknowledged": "Unacknowledged"}
_MESSAGES = {"publish": "Published", "deliver_get": "Delivered", "ack": "Acknowledged"}
_OCTETS = {"recv_oct": "Received", "send_oct": "Sent"}


@dataclass(frozen=True, slots=True)
class Series:
    """A line.

    Attributes:
        latest: the figure of this moment.
        values: at the chart's times.
    """

    label: str
    latest: float
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one time.

    Attributes:
        times: in seconds since 1970, the oldest first.
    """

    title: str
    times: Sequence[int]
    series: Sequence[Series]

    @property
    def data(self) -> str:
        """JSON for the script."""
        lines = [{"label": each.label, "values": each.values} for each in self.series]
        return msgspec.json.encode({"times": self.times, "series": lines}).decode()


def length_chart(row: Mapping[str, Any]) -> Chart:
    """The messages of a queue, a vhost, or the node.

    Args:
        row: of the API, with samples of lengths.
    """
    times: list[int] = []
    lines: list[Series] = []
    for name, label in _LENGTHS.items():
        times, values = samples(row[f"{name}_details"])
        lines.append(Series(label, row[name], values))
    return Chart("Messages", times, lines)


def message_chart(row: Mapping[str, Any]) -> Chart | None:
    """How many messages come and go; None: there was none yet."""
    return _rate_chart("Messages a second", row.get("message_stats", {}), _MESSAGES)


def octet_chart(row: Mapping[str, Any]) -> Chart | None:
    """How many bytes come and go over a connection."""
    return _rate_chart("Bytes a second", row, _OCTETS)


def _rate_chart(title: str, row: Mapping[str, Any], named: Mapping[str, str]) -> Chart | None:
    times: list[int] = []
    lines: list[Series] = []
    for name, label in named.items():
        details = row.get(f"{name}_details")
        if details is not None:
            times, counts = samples(details)
            rates = [(after - before) / STEP_SECONDS for before, after in pairwise(counts)]
            lines.append(Series(label, details["rate"], rates))
    return Chart(title, times[1:], lines) if lines else None


def samples(details: Mapping[str, Any]) -> tuple[list[int], list[float]]:
    """The times and values of the API's samples, the oldest first."""
    found = details["samples"][::-1]
    return [each["timestamp"] // 1_000 for each in found], [each["sample"] for each in found]


SPARKLINE_WIDTH, SPARKLINE_HEIGHT = 100, 20
SPARKLINE_STEP_SECONDS = 20  # 31 points, some 3 pixels apart: 0.2 ms a queue

# The query of the API for the rows of a list with sparklines.
SPARKLINE_SAMPLED = {"lengths_age": str(AGE_SECONDS), "lengths_incr": str(SPARKLINE_STEP_SECONDS)}


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A small line beside a number, drawn here, as a list has many of them.

    Attributes:
        points: of an SVG polyline, in a box of `SPARKLINE_WIDTH` and `SPARKLINE_HEIGHT`.
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
    step = SPARKLINE_WIDTH / max(1, len(values) - 1)
    scale = (SPARKLINE_HEIGHT - 2) / max(1, *values)
    points = ((at * step, SPARKLINE_HEIGHT - 1 - value * scale) for at, value in enumerate(values))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
