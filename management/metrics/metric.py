"""A metric: its name, its meaning, how it is read; and Prometheus' text format.

    # HELP rabbitmq_queue_messages_ready Messages that wait for a consumer
    # TYPE rabbitmq_queue_messages_ready gauge
    rabbitmq_queue_messages_ready{vhost="/",queue="orders"} 17

All samples of a metric stand behind its two lines of head.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format, version 0.0.4
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeVar

from routelog.log_backend import Histogram

_Of = TypeVar("_Of")
_Owner = TypeVar("_Owner")


@dataclass(frozen=True, slots=True)
class Metric(Generic[_Of]):
    """Reads one value of an object, under the name that Prometheus knows.

    Attributes:
        name: in full. One that ends with `_total` is a counter, others are gauges.
        read: the value; None: there is none.
    """

    name: str
    help: str
    read: Callable[[_Of], float | None]

    def of(self, find: Callable[[_Owner], _Of]) -> "Metric[_Owner]":
        """The same, read from what has that which it is a metric of."""
        return Metric(self.name, self.help, lambda owner: self.read(find(owner)))

    @property
    def detailed_name(self) -> str:
        """Its name in /metrics/detailed, where a sum of it would be another metric."""
        return self.name.replace("_", "_detailed_", 1)

    @property
    def kind(self) -> str:
        """What Prometheus calls it."""
        return "counter" if self.name.endswith("_total") else "gauge"


# By group; the groups' names are those of RabbitMQ's /metrics/detailed.
Groups = Mapping[str, tuple[Metric[_Of], ...]]


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def head(name: str, kind: str, meaning: str) -> str:
    """The lines before the samples of a metric.

    Args:
        meaning: one line, without a backslash.
    """
    return f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"


def sample_text(name: str, kind: str, meaning: str, value: float | None, labels: str = "") -> str:
    """A metric of one sample, with its head."""
    return f"{head(name, kind, meaning)}{name}{labels} {value}\n"


def labelled(labels: Mapping[str, str]) -> str:
    """Labels as they stand behind a metric's name."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    # Names come from clients. What is no character of UTF-8 would make the whole scrape unreadable.
    if not value.isascii():
        value = value.encode(errors="replace").decode()
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def histogram_text(name: str, meaning: str, histogram: Histogram) -> str:
    """A histogram, with its head."""
    ends = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    counts = list(accumulate(histogram.counts))
    buckets = "".join(
        f'{name}_bucket{{le="{end}"}} {count}\n' for end, count in zip(ends, counts, strict=True)
    )
    sums = f"{name}_sum {histogram.sum}\n{name}_count {counts[-1]}\n"
    return head(name, "histogram", meaning) + buckets + sums
