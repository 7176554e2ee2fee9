"""`routelog perf`: load for any AMQP 0-9-1 broker, with messages encoded beforehand."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from routelog.benchmarks.brokers.processor_clock import processor_clock
from routelog.benchmarks.perf.backlog import FILL_CONFIRMS, measure_drain
from routelog.benchmarks.perf.churn import measure_churn
from routelog.benchmarks.perf.idle import measure_idle, resident_bytes
from routelog.benchmarks.perf.outcome import Outcome, percentile_rows, progress, refusals
from routelog.benchmarks.perf.throughput import measure_throughput
from routelog.benchmarks.traffic import options
from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.endpoint import Endpoint, with_tls_options
from routelog.benchmarks.traffic.folder import scratch
from routelog.benchmarks.traffic.machine import Machine, measure_machine
from routelog.benchmarks.traffic.publish_run import publishes_of, publishes_to
from routelog.benchmarks.traffic.topology import Topology
from routelog.benchmarks.traffic.unexpected import BadRequest
from routelog.benchmarks.traffic.workload import Workload

if TYPE_CHECKING:
    from routelog.benchmarks.perf.latency import Latency

_MACHINE_SECONDS = 1.0  # of each of its limits

perf_commands = typer.Typer(
    name="perf",
    help="Measure any AMQP 0-9-1 broker: throughput, latency, churn, a backlog's drain, idle connections.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@perf_commands.command()
def throughput(
    uri: options.Uri = options.DEFAULT_URI,
    tls_ca: options.TlsCa = None,
    tls_insecure: options.TlsInsecure = False,
    producers: options.Producers = 1,
    consumers: options.Consumers = 1,
    queues: options.Queues = 1,
    size: options.Size = 100,
    durable: options.Durable = False,
    confirms: options.Confirms = 0,
    prefetch: options.Prefetch = 0,
    ack_every: options.AckEvery = 0,
    exchange: options.Exchange = "default",
    keys: options.Keys = 0,
    bindings: options.Bindings = 0,
    fan_out: options.FanOut = 0,
    headers: options.Headers = 0,
    properties: options.Properties = False,
    argument: options.Argument = None,
    messages: options.Messages = 0,
    run_ahead: options.RunAhead = 0,
    each: options.Each = False,
    pid: options.Pid = 0,
    seconds: options.Seconds = 5.0,
    warm_up: options.WarmUp = 1.0,
    with_machine: options.WithMachine = True,
    folder: options.Folder = None,
    json_file: options.JsonFile = None,
) -> None:
    """Messages a second, every one of them checked."""
    with refusals():
        workload = Workload(
            body_bytes=size,
            producers=producers,
            consumers=consumers,
            queues=queues,
            durable=durable,
            confirms_in_flight=confirms,
            ack_every=ack_every,
            prefetch=prefetch,
            exchange_type=options.exchange_type(exchange),
            keys=keys,
            bindings=bindings,
            fan_out=fan_out,
            headers=headers,
            with_properties=properties,
            queue_arguments=options.queue_arguments(argument),
            messages=messages,
            run_ahead=run_ahead,
            each=each,
        )
        target = _Target(uri, tls_ca, tls_insecure)
        cpu = processor_clock(pid, Endpoint.parse(target.uri))
        limits = _machine(workload, folder) if with_machine else None
        with progress("throughput") as on_tick:
            found = measure_throughput(target.uri, workload, warm_up, seconds, on_tick, cpu)
        rows = [("published", f"{found.published:,.0f} msg/s")]
        if confirms:
            rows.append(("confirmed", f"{found.confirmed:,.0f} msg/s"))
        if consumers:
            rows.append(("received", f"{found.received:,.0f} msg/s"))
            # By Little's law: what is on its way, by what comes in a second.
            wait = found.ahead / found.received
            rows.append(("on their way", f"{found.ahead:,} messages, {wait * 1e3:,.1f} ms"))
        rows.append(("in bodies", f"{found.rate * size / 1e6:,.1f} MB/s"))
        if cpu is not None:
            rows.append(("processor time of the broker", f"{found.cpu_seconds * 1e6:,.2f} µs/msg"))
        rows.append(("cores busy before the run", f"{found.busy_before:.0%}"))
        target.report("throughput", rows, asdict(found), asdict(workload), limits, json_file)


@perf_commands.command()
def latency(
    uri: options.Uri = options.DEFAULT_URI,
    tls_ca: options.TlsCa = None,
    tls_insecure: options.TlsInsecure = False,
    rate: Annotated[float, typer.Option(min=1.0, help="Messages a second.")] = 10_000.0,
    size: options.Size = 1024,
    durable: options.Durable = False,
    confirms: Annotated[bool, typer.Option("--confirms", help="Ask for confirms.")] = False,
    prefetch: options.Prefetch = 0,
    ack_every: options.AckEvery = 0,
    argument: options.Argument = None,
    seconds: options.Seconds = 5.0,
    warm_up: options.WarmUp = 1.0,
    with_machine: options.WithMachine = True,
    folder: options.Folder = None,
    json_file: options.JsonFile = None,
) -> None:
    """How long messages take at a fixed rate, from the moment each is due.

    What a message waits because the broker is behind counts (an open loop: no coordinated omission).
    """
    with refusals():
        measure = _latency_measurement()
        workload = Workload(
            body_bytes=size,
            durable=durable,
            confirms_in_flight=int(confirms),
            ack_every=ack_every,
            prefetch=prefetch,
            queue_arguments=options.queue_arguments(argument),
        )
        target = _Target(uri, tls_ca, tls_insecure)
        limits = _machine(workload, folder) if with_machine else None
        with progress("latency") as on_tick:
            found = measure(target.uri, workload, rate, warm_up, seconds, on_tick)
        rows = percentile_rows("delivered", found.delivered)
        if found.confirmed is not None:
            rows += percentile_rows("confirmed", found.confirmed)
        rows += percentile_rows("sent late", found.sent)[2:]
        settings = asdict(workload) | {"rate": rate}
        target.report("latency", rows, asdict(found), settings, limits, json_file)


@perf_commands.command()
def drain(
    uri: options.Uri = options.DEFAULT_URI,
    tls_ca: options.TlsCa = None,
    tls_insecure: options.TlsInsecure = False,
    messages: Annotated[int, typer.Option(min=1, help="The backlog.")] = 1_000_000,
    producers: options.Producers = 1,
    consumers: options.Consumers = 1,
    queues: options.Queues = 1,
    size: options.Size = 100,
    durable: options.Durable = False,
    confirms: Annotated[int, typer.Option(min=1, help="In flight.")] = FILL_CONFIRMS,
    prefetch: options.Prefetch = 0,
    ack_every: options.AckEvery = 0,
    argument: options.Argument = None,
    pid: options.Pid = 0,
    with_machine: options.WithMachine = True,
    folder: options.Folder = None,
    json_file: options.JsonFile = None,
) -> None:
    """Fill queues while nobody consumes, then drain them."""
    with refusals():
        workload = Workload(
            body_bytes=size,
            producers=producers,
            consumers=consumers,
            queues=queues,
            durable=durable,
            confirms_in_flight=confirms,
            ack_every=ack_every,
            prefetch=prefetch,
            queue_arguments=options.queue_arguments(argument),
            messages=messages,
        )
        target = _Target(uri, tls_ca, tls_insecure)
        cpu = processor_clock(pid, Endpoint.parse(target.uri))
        limits = _machine(workload, folder) if with_machine else None
        with progress("drain") as on_tick:
            found = measure_drain(target.uri, workload, on_tick, cpu)
        rows = [
            ("filled", f"{found.filled:,.0f} msg/s"),
            ("drained", f"{found.drained:,.0f} msg/s"),
        ]
        if found.cpu_seconds:
            rows.append(("processor time of the broker", f"{found.cpu_seconds * 1e6:,.2f} µs/msg"))
        target.report("drain", rows, asdict(found), asdict(workload), limits, json_file)


@perf_commands.command()
def churn(
    uri: options.Uri = options.DEFAULT_URI,
    tls_ca: options.TlsCa = None,
    tls_insecure: options.TlsInsecure = False,
    parallel: Annotated[int, typer.Option(min=1, help="At the same time.")] = 1,
    durable: Annotated[bool, typer.Option("--durable", help="Durable queues.")] = False,
    seconds: options.Seconds = 3.0,
    with_machine: options.WithMachine = True,
    folder: options.Folder = None,
    json_file: options.JsonFile = None,
) -> None:
    """Connections, channels and queues opened and closed a second."""
    with refusals():
        target = _Target(uri, tls_ca, tls_insecure)
        limits = _machine(Workload(), folder) if with_machine else None
        found = measure_churn(target.uri, seconds, parallel, durable=durable)
        rows = [(name, f"{value:,.0f} a second") for name, value in asdict(found).items()]
        settings = {"parallel": parallel, "durable": durable, "seconds": seconds}
        target.report("churn", rows, asdict(found), settings, limits, json_file)


@perf_commands.command()
def idle(
    pid: Annotated[int, typer.Option(help="The broker's process, on this machine.")],
    uri: options.Uri = options.DEFAULT_URI,
    tls_ca: options.TlsCa = None,
    tls_insecure: options.TlsInsecure = False,
    connections: Annotated[int, typer.Option(min=1, help="How many.")] = 10_000,
    channels: Annotated[int, typer.Option(min=0, max=2047, help="Open on each.")] = 0,
    json_file: options.JsonFile = None,
) -> None:
    """Memory that a broker needs for connections that do nothing."""
    with refusals():
        target = _Target(uri, tls_ca, tls_insecure)
        with progress("logins", "connections") as on_tick:
            found = measure_idle(
                target.uri, connections, channels, lambda: resident_bytes(pid), on_tick
            )
        rows = [
            ("memory before", f"{found.before / 1e6:,.1f} MB"),
            ("with the connections", f"{found.connected / 1e6:,.1f} MB"),
            ("when they had left", f"{found.gone / 1e6:,.1f} MB"),
            ("each of them", f"{found.each / 1024:,.1f} KiB"),
            ("logged in", f"{found.logins:,.0f} a second"),
        ]
        settings = {"connections": connections, "channels": channels, "pid": pid}
        target.report("idle", rows, asdict(found), settings, None, json_file)


@perf_commands.command()
def machine(
    size: Annotated[
        list[int] | None, typer.Option(min=6, help="Bytes of relayed messages; repeatable.")
    ] = None,
    seconds: options.Seconds = _MACHINE_SECONDS,
    folder: options.Folder = None,
    json_file: options.JsonFile = None,
) -> None:
    """The machine's own limits, without a broker: loopback relay, sequential write, fdatasync."""
    with refusals():
        runs = {s: publishes_to("relay", s, persistent=False) for s in size or (16, 100, 1024)}
        with scratch(folder, "perf-") as place:
            found = measure_machine(place, runs, seconds)
        rows = [
            *(
                (f"relay, {s:,} B", f"{rate:,.0f} msg/s")
                for s, rate in found.relay_per_second.items()
            ),
            ("sequential write", f"{found.write_bytes_per_second / 1e6:,.0f} MB/s"),
            ("fdatasync of 4 KiB, p50", f"{found.sync_seconds_p50 * 1e6:,.0f} µs"),
            ("fdatasync of 4 KiB, p99", f"{found.sync_seconds_p99 * 1e6:,.0f} µs"),
        ]
        settings = {"seconds": seconds}
        outcome = Outcome("machine", f"{found.cores} cores", rows, asdict(found), settings)
        _publish(outcome, json_file)


class _Target:
    """The broker to measure; it is asked for its name first, so that a wrong URI shows at once."""

    def __init__(self, uri: str, tls_ca: str | None, tls_insecure: bool) -> None:
        self.uri = with_tls_options(uri, tls_ca, insecure=tls_insecure)
        connection = Connection(self.uri)
        self.server = connection.server
        connection.close()

    def report(
        self,
        command: str,
        rows: list[tuple[str, str]],
        figures: dict[str, Any],
        settings: dict[str, Any],
        limits: Machine | None,
        json_file: Path | None,
    ) -> None:
        """Print, and write where it is wanted."""
        _publish(Outcome(command, self.server, rows, figures, settings, limits), json_file)


def _latency_measurement() -> "Callable[..., Latency]":
    """`measure_latency`, whose histograms come with an extra that brokers do without."""
    try:
        from routelog.benchmarks.perf.latency import measure_latency
    except ModuleNotFoundError:
        raise BadRequest("latency needs hdrhistogram: install routelog-broker[perf]") from None
    return measure_latency


def _machine(workload: Workload, folder: Path | None) -> Machine:
    """The machine's limits with the very messages of a workload."""
    publishes = publishes_of(Topology(workload, "bench.relay"), 0)
    with scratch(folder, "perf-") as place:
        return measure_machine(place, {workload.body_bytes: publishes}, _MACHINE_SECONDS)


def _publish(outcome: Outcome, json_file: Path | None) -> None:
    outcome.print(Console())
    if json_file is not None:
        outcome.write(json_file)
