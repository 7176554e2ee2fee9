"""Charts of some minutes to a day: the latest figures are text, and a script draws the others."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class Range:
    """How far back charts go.

    Attributes:
        key: in the query of a page.
        step: seconds between two points: 61 times of a queue's fifteen numbers take 3 ms.
    """

    key: str
    title: str
    age: int
    step: int

    @property
    def query(self) -> Mapping[str, str]:
        """The query of the API for one thing with charts."""
        return {
            f"{kind}_{word}": str(seconds)
            for kind in ("lengths", "msg_rates", "data_rates")
            for word, seconds in (("age", self.age), ("incr", self.step))
        }


TEN_MINUTES = Range("10m", "10 min", 600, 10)
# Of the node, vhosts and queues; connections and channels have ten minutes alone.
RANGES = (
    TEN_MINUTES,
    Range("1h", "1 h", 3_600, 60),
    Range("8h", "8 h", 28_800, 480),
    Range("24h", "24 h", 86_400, 1_440),
)
SAMPLED = TEN_MINUTES.query


def range_of(key: str) -> Range:
    """The range of a key; ten minutes for any other text."""
    return next((each for each in RANGES if each.key == key), TEN_MINUTES)


# By the API's names: what a line is called, and the token of its colour.
_Named = Mapping[str, tuple[str, str]]
_LENGTHS: _Named = {
    "messages_ready": ("Ready", "ready"),
    "messages_unacknowledged": ("Unacknowledged", "unacked"),
}
_MESSAGES: _Named = {
    "publish": ("Published", "in"),
    "deliver_get": ("Delivered", "out"),
    "ack": ("Acknowledged", "ack"),
}
_OCTETS: _Named = {"recv_oct": ("Received", "in"), "send_oct": ("Sent", "out")}


@dataclass(frozen=True, slots=True)
class Series:
    """A line.

    Attributes:
        colour: the name of its token.
        latest: the figure of this moment.
        values: at the chart's times.
    """

    label: str
    colour: str
    latest: float
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one time.

    Attributes:
        unit: of its figures: "count", "rate" or "octet_rate", as the filters of numbers are called.
        times: in seconds since 1970, the oldest first.
    """

    title: str
    unit: str
    times: Sequence[int]
    series: Sequence[Series]

    @property
    def data(self) -> str:
        """JSON for the script."""
        lines = [{"colour": each.colour, "values": each.values} for each in self.series]
        said = {"unit": self.unit, "times": self.times, "series": lines}
        return msgspec.json.encode(said).decode()


def length_chart(row: Mapping[str, Any]) -> Chart:
    """The messages of a queue, a vhost, or the node.

    Args:
        row: of the API, with samples of lengths.
    """
    times: list[int] = []
    lines: list[Series] = []
    for name, (label, colour) in _LENGTHS.items():
        times, values = samples(row[f"{name}_details"])
        lines.append(Series(label, colour, row[name], values))
    return Chart("Messages", "count", times, lines)


def message_chart(row: Mapping[str, Any]) -> Chart | None:
    """How many messages come and go; None: there was none yet."""
    return _rate_chart("Messages a second", "rate", row.get("message_stats", {}), _MESSAGES)


def octet_chart(row: Mapping[str, Any]) -> Chart | None:
    """How many bytes come and go over a connection."""
    return _rate_chart("Bytes a second", "octet_rate", row, _OCTETS)


def _rate_chart(title: str, unit: str, row: Mapping[str, Any], named: _Named) -> Chart | None:
    times: list[int] = []
    lines: list[Series] = []
    for name, (label, colour) in named.items():
        details = row.get(f"{name}_details")
        if details is not None:
            times, counts = samples(details)
            step = times[1] - times[0] if len(times) > 1 else 1
            rates = [max(0, after - before) / step for before, after in pairwise(counts)]
            lines.append(Series(label, colour, details["rate"], rates))
    return Chart(title, unit, times[1:], lines) if lines else None


def samples(details: Mapping[str, Any]) -> tuple[list[int], list[float]]:
    """The times and values of the API's samples, the oldest first."""
    found = details["samples"][::-1]
    return [each["timestamp"] // 1_000 for each in found], [each["sample"] for each in found]


def at_age(details: Mapping[str, Any]) -> Callable[[float], float]:
    """What the API's samples say of an age, in seconds before the newest."""
    times, values = samples(details)

    def value(age: float) -> float:
        return values[max(0, bisect_right(times, times[-1] - age) - 1)]

    return value


SPARKLINE_WIDTH, SPARKLINE_HEIGHT = 100, 20
SPARKLINE_STEP_SECONDS = 20  # 31 points, some 3 pixels apart: 0.2 ms a queue

# The query of the API for the rows of a list with sparklines.
SPARKLINE_SAMPLED = {
    "lengths_age": str(TEN_MINUTES.age),
    "lengths_incr": str(SPARKLINE_STEP_SECONDS),
}


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
    return line_of(samples(details)[1])


def line_of(values: Sequence[float]) -> Sparkline:
    """The line of values, the oldest first; there is one."""
    return Sparkline(_points(values), min(values), max(values), values[-1])


def _points(values: Sequence[float]) -> str:
    if min(values) == max(values):
        values = (values[0], values[0])  # most lines of a long list are flat: their ends are enough
    # A pixel is left above and below, so that the line is not cut to half of its width. 0 is at the bottom.
    step = SPARKLINE_WIDTH / max(1, len(values) - 1)
    scale = (SPARKLINE_HEIGHT - 2) / max(1, *values)
    points = ((at * step, SPARKLINE_HEIGHT - 1 - value * scale) for at, value in enumerate(values))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
