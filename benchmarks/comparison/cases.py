"""The rows of the matrix, in the order in which they are reported."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from routelog.benchmarks.brokers.broker_process import Broker
from routelog.benchmarks.perf.backlog import measure_behind
from routelog.benchmarks.perf.idle import measure_idle, raise_file_limit
from routelog.benchmarks.perf.latency import measure_latency
from routelog.benchmarks.perf.throughput import Throughput, measure_throughput
from routelog.benchmarks.traffic.unexpected import BadRequest
from routelog.benchmarks.traffic.workload import ExchangeType, Workload

LATENCY_RATE = 10_000.0  # messages a second
LATENCY_WINDOWS = 6  # of one run: in one second, a stop of 10 ms is all of the slowest 1 %
IDLE_CONNECTIONS = 10_000


class Kind(Enum):
    """The kind of a measurement; its value is the unit of the compared figure."""

    THROUGHPUT = "messages/s"
    BEHIND = "live messages/s"
    LATENCY = "p99, ms"
    IDLE = "MB"

    @property
    def is_rate(self) -> bool:
        """Whether a higher figure is better."""
        return self not in (Kind.LATENCY, Kind.IDLE)


@dataclass(frozen=True)
class Window:
    """The length of a run.

    Args:
        backlog: messages that the consumer of a `BEHIND` case is behind.
    """

    warm_up_seconds: float
    seconds: float
    backlog: int


@dataclass(frozen=True)
class Figure:
    """One run of a case.

    Args:
        value: in the case's unit.
        busy_before: see `Throughput`; None: not measured.
        cpu_seconds: of the broker for one message; 0: unknown.
        details: everything measured.
    """

    value: float
    busy_before: float | None
    cpu_seconds: float
    details: dict[str, object]


@dataclass(frozen=True)
class Case:
    """One row.

    Args:
        channels: of each connection of an `IDLE` case, which has no messages.
    """

    name: str
    title: str
    workload: Workload
    kind: Kind = Kind.THROUGHPUT
    with_tls: bool = False
    channels: int = 0

    def cannot_be_served(self, broker: Broker) -> str:
        """The reason to leave out this broker; empty: it is measured."""
        if self.with_tls and broker.tls_uri is None:
            return "no TLS"
        if self.kind is Kind.IDLE and broker.another is None:
            return "not started here"
        return ""

    def measure(self, broker: Broker, window: Window) -> Figure:
        """One run.

        Raises:
            RunFailed: the run gave no figure.
        """
        uri = broker.tls_uri if self.with_tls and broker.tls_uri else broker.uri
        lengths = window.warm_up_seconds, window.seconds
        match self.kind:
            case Kind.THROUGHPUT:
                found = measure_throughput(uri, self.workload, *lengths, cpu=broker.cpu_seconds)
                return _figure(found, asdict(found))
            case Kind.BEHIND:
                both = measure_behind(
                    uri, self.workload, window.backlog, *lengths, cpu=broker.cpu_seconds
                )
                return _figure(both.live, asdict(both))
            case Kind.LATENCY:
                warm_up, seconds = window.warm_up_seconds, window.seconds * LATENCY_WINDOWS
                times = measure_latency(uri, self.workload, LATENCY_RATE, warm_up, seconds)
                return Figure(times.delivered.p99 * 1e3, None, 0.0, asdict(times))
            case Kind.IDLE:
                return _idle(broker, self.channels)


def _figure(found: Throughput, details: dict[str, object]) -> Figure:
    return Figure(found.rate, found.busy_before, found.cpu_seconds, details)


def _idle(broker: Broker, channels: int) -> Figure:
    """All memory of an idle broker."""
    assert broker.another is not None, "such a case is left out"
    raise_file_limit(IDLE_CONNECTIONS)
    with broker.another() as fresh:
        found = measure_idle(fresh.uri, IDLE_CONNECTIONS, channels, fresh.resident_bytes)
    return Figure(found.connected / 1e6, None, 0.0, asdict(found))


def _confirmed(body_bytes: int) -> Workload:
    return Workload(body_bytes, durable=True, confirms_in_flight=200, ack_every=1, prefetch=100)


def _each(connections: int, **values: Any) -> Workload:
    """As clients in the field: a message, or an acknowledgement, is a write of its own."""
    return Workload(producers=connections, consumers=connections, each=True, **values)


# Small batches. What is compared first is the broker's processor time: on two cores the load may be the limit.
EACH = (
    Case(
        "each-durable-100",
        "a write for each: 100 B, durable, 200 confirms in flight, ack each, prefetch 100",
        _each(1, durable=True, confirms_in_flight=200, ack_every=1, prefetch=100),
    ),
    Case(
        "each-durable-1024",
        "a write for each: 1 KiB, the same",
        _each(1, body_bytes=1024, durable=True, confirms_in_flight=200, ack_every=1, prefetch=100),
    ),
    Case(
        "each-4",
        "a write for each: 4 producers, queues, consumers, durable, 100 in flight, ack every 10",
        _each(4, queues=4, durable=True, confirms_in_flight=100, ack_every=10, prefetch=200),
    ),
    Case(
        "each-10",
        "a write for each: 10 producers, 10 consumers, one queue, 10 in flight, ack each, prefetch 10",
        _each(10, confirms_in_flight=10, ack_every=1, prefetch=10),
    ),
    Case(
        "each-1024",
        "a write for each: 1 KiB, automatic acks",
        _each(1, body_bytes=1024),
    ),
    Case(
        "each-single",
        "a write for each: 100 B, durable, one confirm in flight",
        _each(1, durable=True, confirms_in_flight=1, ack_every=1, prefetch=100),
    ),
)

CASES = (
    Case("transient-16", "16 B, automatic acks", Workload(16)),
    Case("transient-100", "100 B, automatic acks", Workload(100)),
    Case("transient-1024", "1 KiB, automatic acks", Workload(1024)),
    Case(
        "durable-100",
        "100 B, durable, 200 confirms in flight, ack each, prefetch 100",
        _confirmed(100),
    ),
    Case("durable-1024", "1 KiB, the same", _confirmed(1024)),
    Case(
        "durable-wide-100",
        "100 B, durable, 4,000 confirms in flight, ack every 200",
        Workload(durable=True, confirms_in_flight=4_000, ack_every=200, prefetch=20_000),
    ),
    Case(
        "durable-single-100",
        "100 B, durable, one confirm in flight",
        Workload(durable=True, confirms_in_flight=1, ack_every=1, prefetch=100),
    ),
    Case(
        "topic-1000",
        "100 B, topic exchange, 1,000 bindings, a new key per message (100,000 in turn)",
        Workload(exchange_type=ExchangeType.TOPIC, bindings=1_000, keys=100_000),
    ),
    Case(
        "fanout-100",
        "100 B, fan-out to 100 queues (deliveries)",
        Workload(exchange_type=ExchangeType.FANOUT, queues=100),
    ),
    Case(
        "fanout-durable-1024",
        "1 KiB, durable, fan-out to 100 queues, 20 confirms in flight, ack every 20 (deliveries)",
        Workload(
            body_bytes=1024,
            queues=100,
            durable=True,
            confirms_in_flight=20,
            ack_every=20,
            exchange_type=ExchangeType.FANOUT,
        ),
    ),
    Case(
        "properties",
        "100 B, 8 headers and 8 properties, automatic acks",
        Workload(headers=8, with_properties=True),
    ),
    Case(
        "connections-1000",
        "100 B, 500 producers, 500 queues, 500 consumers, one confirm in flight each",
        Workload(producers=500, queues=500, consumers=500, confirms_in_flight=1),
    ),
    Case(
        "prefetch-1",
        "100 B, transient, ack each, prefetch 1",
        Workload(ack_every=1, prefetch=1, run_ahead=1_000),
    ),
    *EACH,
    Case("large-1048576", "1 MiB, automatic acks", Workload(1_048_576)),
    Case("tls-100", "100 B, automatic acks, TLS", Workload(100), with_tls=True),
    Case(
        "behind",
        "100 B, durable, 200 confirms in flight, beside a consumer that is far behind",
        _confirmed(100),
        Kind.BEHIND,
    ),
    Case(
        "latency-10000",
        "1 KiB at 10,000 messages/s, open loop, automatic acks",
        Workload(1024),
        Kind.LATENCY,
    ),
    Case("idle-10000", "10,000 idle connections, memory of the broker", Workload(), Kind.IDLE),
    Case(
        "idle-10000-channels",
        "10,000 idle connections with a channel each, the same",
        Workload(),
        Kind.IDLE,
        channels=1,
    ),
)


def cases_named(names: list[str]) -> tuple[Case, ...]:
    """The cases of these names, or all of them when no name is given.

    Raises:
        BadRequest: a name is unknown.
    """
    known = {case.name: case for case in CASES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadRequest(f"unknown case {unknown[0]!r}; known: {', '.join(known)}")
    return tuple(known[name] for name in names) if names else CASES
