"""A metric: its name, what it means, and how it is read from what it is a metric of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

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
