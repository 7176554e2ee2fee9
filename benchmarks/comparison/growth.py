"""The cost of a message as a dimension grows, such as the number of queues: one curve for each dimension.

The cost is the processor time of a broker that was started here; of another broker, the time from one message
to the next.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console

from routelog.benchmarks.brokers.broker_process import Broker
from routelog.benchmarks.comparison.cases import Window
from routelog.benchmarks.perf.backlog import measure_drain
from routelog.benchmarks.perf.throughput import measure_throughput
from routelog.benchmarks.traffic.unexpected import RunFailed
from routelog.benchmarks.traffic.workload import ExchangeType, Workload

DECADES = (1, 10, 100, 1_000, 10_000, 100_000)
# Fewer are delivered while the consumer subscribes, and take less than the system's tick of 10 ms.
BACKLOGS = (100_000, 1_000_000, 10_000_000, 100_000_000)
SIZES = tuple(16 * 4**power for power in range(11))  # 16 B to 16 MiB


@dataclass(frozen=True)
class Cost:
    """Of one message, in seconds: processor time of the broker (0 if unknown), and wall clock."""

    cpu_seconds: float
    seconds: float

    @property
    def value(self) -> float:
        """The cost to draw."""
        return self.cpu_seconds or self.seconds


@dataclass(frozen=True)
class Curve:
    """The curve of one dimension.

    Args:
        axis: name of the dimension.
        points: numbers or sizes.
        measure: the cost of a message at a point.
    """

    name: str
    axis: str
    title: str
    points: tuple[int, ...]
    measure: Callable[[Broker, int, Window], Cost]


@dataclass
class Grown:
    """A curve as measured: costs by point, and the points that failed or were left out with the reason.

    Attributes:
        took: the last point measured, and how many seconds beside its window.
    """

    curve: Curve
    broker: str
    costs: dict[int, Cost] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)
    took: tuple[int, float] = (0, 0.0)

    def expected_seconds(self, point: int) -> float:
        """How long a point may take beside its window: what it needs grows with it at most."""
        last, seconds = self.took
        return seconds * point / last if last else 0.0


def _throughput(broker: Broker, workload: Workload, window: Window) -> Cost:
    found = measure_throughput(
        broker.uri, workload, window.warm_up_seconds, window.seconds, cpu=broker.cpu_seconds
    )
    return Cost(found.cpu_seconds, 1 / found.rate)


def _with_queues(broker: Broker, queues: int, window: Window) -> Cost:
    # Nobody consumes: no channel takes so many consumers.
    workload = Workload(queues=queues, consumers=0, confirms_in_flight=1_000)
    return _throughput(broker, workload, window)


def _with_bindings(broker: Broker, bindings: int, window: Window) -> Cost:
    workload = Workload(exchange_type=ExchangeType.TOPIC, bindings=bindings)
    return _throughput(broker, workload, window)


def _with_connections(broker: Broker, connections: int, window: Window) -> Cost:
    return _throughput(broker, Workload(producers=connections, confirms_in_flight=1), window)


def _with_backlog(broker: Broker, backlog: int, window: Window) -> Cost:
    workload = Workload(
        durable=True, confirms_in_flight=4_000, ack_every=200, prefetch=2_000, messages=backlog
    )
    found = measure_drain(broker.uri, workload, cpu=broker.cpu_seconds)
    return Cost(found.cpu_seconds, 1 / found.drained)


def _with_size(broker: Broker, size: int, window: Window) -> Cost:
    return _throughput(broker, Workload(size), window)


CURVES = (
    Curve(
        "queues",
        "queues",
        "publishing 100 B to each queue in turn, 1,000 confirms in flight",
        DECADES,
        _with_queues,
    ),
    Curve(
        "bindings",
        "bindings",
        "100 B through a topic exchange, one routing key for each binding in turn",
        DECADES,
        _with_bindings,
    ),
    Curve(
        "connections",
        "connections",
        "100 B, each connection with one confirm in flight",
        DECADES[:-1],
        _with_connections,
    ),
    Curve(
        "backlog",
        "messages in the queue",
        "draining 100 B, durable, ack every 200",
        BACKLOGS,
        _with_backlog,
    ),
    Curve(
        "size",
        "bytes of a message",
        "automatic acks, transient",
        SIZES,
        _with_size,
    ),
)


def measure_growth(
    brokers: dict[str, Broker],
    curves: tuple[Curve, ...],
    window: Window,
    most: int,
    point_seconds: float,
    console: Console,
) -> list[Grown]:
    """Every curve for every broker, point by point, in turns.

    Args:
        most: points beyond it are left out.
        point_seconds: a point is left out when the one before lets expect that it takes longer.
    """
    grown = []
    for curve in curves:
        of_brokers = [Grown(curve, name) for name in brokers]
        grown += of_brokers
        for point in (p for p in curve.points if p <= most):
            for each in of_brokers:
                expected = each.expected_seconds(point)
                if expected > point_seconds:
                    each.left_out[point] = f"it would take some {expected:,.0f} s"
                else:
                    _measure_point(each, brokers[each.broker], point, window, console)
    return grown


def _measure_point(
    grown: Grown, broker: Broker, point: int, window: Window, console: Console
) -> None:
    name = f"{grown.curve.name:12} {point:12,} {grown.broker:12}"
    began = time.monotonic()
    try:
        cost = grown.curve.measure(broker, point, window)
    except (RunFailed, OSError) as error:
        grown.failures[point] = str(error)
        console.print(f"{name} failed: {error}", markup=False)
        return
    grown.costs[point] = cost
    took = time.monotonic() - began - window.warm_up_seconds - window.seconds
    grown.took = point, max(0.0, took)
    cpu, wall = cost.cpu_seconds * 1e6, cost.seconds * 1e6
    console.print(f"{name} {cpu:12,.2f} µs CPU, {wall:12,.2f} µs", highlight=False)
