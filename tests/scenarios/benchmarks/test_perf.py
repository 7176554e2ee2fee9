"""`routelog perf` against a real broker: each command, what it refuses, and what it notices."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import pytest
from pika.spec import BasicProperties
from scenarios.benchmarks.tls_proxy import tls_proxy
from support.management_door import ManagementDoor
from support.sampling import sampled
from support.waiting import wait_until
from typer.testing import CliRunner

from routelog.__main__ import command_line
from routelog.benchmarks.brokers.processor_clock import listening_process
from routelog.benchmarks.perf.idle import measure_idle
from routelog.benchmarks.perf.latency import measure_latency
from routelog.benchmarks.traffic import consumer
from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.endpoint import Endpoint
from routelog.benchmarks.traffic.frames import body_of
from routelog.benchmarks.traffic.run import started
from routelog.benchmarks.traffic.unexpected import EXIT_UNUSABLE, EXIT_WRONG, RunFailed
from routelog.benchmarks.traffic.workload import ExchangeType, Workload

TRANSIENT = BasicProperties(delivery_mode=1)
SHORT = ("--seconds", "0.2", "--warm-up", "0.05", "--no-machine")


def perf(*arguments: str):
    return CliRunner().invoke(command_line, ["perf", *arguments])


@pytest.mark.parametrize(
    "options",
    sampled(
        [
            "--messages 0",
            "--durable --confirms 50 --ack-every 1 --prefetch 20",
            "--durable --confirms 200 --ack-every 20 --prefetch 100 --producers 2 --consumers 2 --queues 4",
            "--producers 3 --queues 2 --consumers 5",
            "--messages 100000 --producers 4 --run-ahead 200",
            "--exchange direct --queues 3 --bindings 9 --keys 7 --confirms 10",
            "--exchange direct --queues 4 --fan-out 2 --consumers 4",
            "--exchange fanout --queues 7 --consumers 2",
            "--exchange topic --bindings 20 --keys 300 --producers 2",
            "--exchange headers --queues 2 --bindings 6 --headers 3 --properties",
            "--consumers 0 --queues 20 --confirms 100",
            "--messages 3000 --ack-every 1 --prefetch 1",
            "--messages 3 --size 5000000",
            "--size 300000 --confirms 2",
            "--argument x-max-priority=5 --size 6",
            "--each --durable --confirms 50 --ack-every 1 --prefetch 20",
            "--each --producers 4 --consumers 3 --confirms 10 --ack-every 4 --prefetch 10",
        ],
        2,
    ),
)
def test_every_message_of_a_workload_is_accounted_for(broker, options, tmp_path):
    written = tmp_path / "figures.json"
    result = perf(
        *("throughput", "--uri", broker.url, "--messages", "2000", *options.split()),
        *(*SHORT, "--json", str(written)),
    )
    assert result.exit_code == 0, result.output
    figures = json.loads(written.read_text())["figures"]
    assert figures["published"] > 0
    assert (figures["received"] > 0) == ("--consumers 0" not in options)
    assert (figures["confirmed"] > 0) == ("--confirms" in options)


def test_each_message_and_each_acknowledgement_is_a_write_of_its_own(broker, monkeypatch, tmp_path):
    sizes = tmp_path / "sizes"

    def noted(self: Connection, data: bytes) -> None:
        with sizes.open("a") as file:
            file.write(f"{len(data)}\n")
        self.socket.sendall(data)

    monkeypatch.setattr(Connection, "send", noted)
    options = "--each --messages 300 --confirms 20 --ack-every 1 --prefetch 20 --size 500"
    result = perf("throughput", "--uri", broker.url, *options.split(), *SHORT)
    assert result.exit_code == 0, result.output
    written = [int(line) for line in sizes.read_text().splitlines()]
    assert max(written) < 1_000
    assert sum(size > 500 for size in written) == 300
    assert written.count(21) == 300


def test_the_processor_time_of_a_broker_on_this_machine_is_told(broker, tmp_path):
    written = tmp_path / "figures.json"
    result = perf("throughput", "--uri", broker.url, *SHORT, "--json", str(written))
    assert "processor time of the broker" in result.output
    assert json.loads(written.read_text())["figures"]["cpu_seconds"] > 0
    assert listening_process(Endpoint.parse(broker.url).port) == broker.pid
    result = perf("throughput", "--uri", broker.url, *SHORT, "--pid", str(2**22 + 1))
    assert result.exit_code == EXIT_UNUSABLE


def test_the_machine_is_measured_with_the_run(broker, tmp_path):
    written, folder = tmp_path / "figures.json", tmp_path / "made" / "here"
    options = (
        "--seconds",
        "0.2",
        "--warm-up",
        "0",
        "--json",
        str(written),
        "--folder",
        str(folder),
    )
    result = perf("throughput", "--uri", broker.url, *options)
    assert result.exit_code == 0, result.output
    machine = json.loads(written.read_text())["machine"]
    assert machine["relay_per_second"]["100"] > 0
    assert machine["write_bytes_per_second"] > 0
    assert 0 < machine["sync_seconds_p50"] <= machine["sync_seconds_p99"]
    assert folder.is_dir()
    assert not list(folder.iterdir()), "it leaves nothing behind"


def test_the_machine_alone_needs_no_broker(tmp_path):
    result = perf("machine", "--size", "16", "--seconds", "0.1", "--folder", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "fdatasync" in result.output


@pytest.mark.parametrize("options", ["", "--durable --confirms --ack-every 1 --prefetch 50"])
def test_latency_counts_every_message_after_the_warm_up(broker, options, tmp_path):
    written = tmp_path / "figures.json"
    result = perf(
        "latency",
        "--uri",
        broker.url,
        "--rate",
        "500",
        *options.split(),
        *SHORT,
        "--json",
        str(written),
    )
    assert result.exit_code == 0, result.output
    figures = json.loads(written.read_text())["figures"]
    kinds = ["delivered", "sent"] + ["confirmed"] * bool(options)
    for kind in kinds:
        times = figures[kind]
        assert times["count"] == 100
        assert 0 < times["p50"] <= times["p99"] <= times["p999"] <= times["max"]


def test_a_broker_too_slow_for_the_rate_is_charged_for_its_backlog(broker):
    # One delivery at a time cannot keep up with this rate: latencies grow to the length of the run.
    workload = Workload(ack_every=1, prefetch=1)
    found = measure_latency(broker.url, workload, 100_000.0, 0.0, 0.1)
    assert found.delivered.count == 10_000
    assert found.delivered.max > 0.1


def test_a_backlog_is_filled_and_drained(broker):
    options = ("--messages", "5000", "--queues", "2", "--consumers", "2", "--durable")
    result = perf("drain", "--uri", broker.url, *options, "--no-machine")
    assert result.exit_code == 0, result.output
    assert "drained" in result.output


def test_a_stream_is_read_from_its_beginning(broker):
    options = ("--messages", "5000", "--durable", "--argument", "x-queue-type=stream")
    acks = ("--prefetch", "500", "--ack-every", "100", "--no-machine")
    result = perf("drain", "--uri", broker.url, *options, *acks)
    assert result.exit_code == 0, result.output
    assert "drained" in result.output


def test_connections_channels_and_queues_come_and_go(broker):
    result = perf(
        "churn", "--uri", broker.url, "--seconds", "0.2", "--parallel", "2", "--no-machine"
    )
    assert result.exit_code == 0, result.output
    assert all(kind in result.output for kind in ("connections", "channels", "queues"))


def test_idle_connections_cost_memory_and_leave(broker, tmp_path):
    written = tmp_path / "figures.json"
    options = ("--connections", "200", "--channels", "2", "--json", str(written))
    result = perf("idle", "--uri", broker.url, "--pid", str(broker.pid), *options)
    assert result.exit_code == 0, result.output
    figures = json.loads(written.read_text())["figures"]
    assert min(figures["before"], figures["connected"], figures["gone"]) > 1_000_000
    assert figures["each"] == (figures["connected"] - figures["before"]) / 200
    assert figures["logins"] > 0


def test_idle_connections_that_did_not_stay_fail_the_run(fresh_broker):
    broker = fresh_broker()
    reads = iter([lambda: None, broker.kill])

    def memory() -> int:
        next(reads)()
        return 1

    with pytest.raises(RunFailed, match=r"clos|broke"):
        measure_idle(broker.url, 3, 0, memory)


def test_a_broker_behind_tls_is_measured_and_its_certificate_is_verified(broker, tmp_path):
    with tls_proxy(broker.host, broker.port, tmp_path) as port:
        uri = f"amqps://guest:guest@localhost:{port}/"
        options = ("throughput", "--uri", uri, "--confirms", "50", "--size", "20000", *SHORT)
        trusted = perf(*options, "--tls-ca", str(tmp_path / "ca.pem"))
        anyone = perf(*options, "--tls-insecure")
        unknown = perf(*options)
    assert trusted.exit_code == 0, trusted.output
    assert anyone.exit_code == 0, anyone.output
    assert unknown.exit_code == EXIT_UNUSABLE
    assert "certificate" in unknown.output


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--uri", "nonsense"], "bad URI"),
        (["--uri", "amqp://127.0.0.1:1/"], "Connection refused"),
        (["--uri", "amqp://guest:wrong@{address}/"], "403"),
        (["--uri", "amqp://guest:guest@{address}/nowhere"], "530"),
        (["--uri", "amqps://{address}/"], "no TLS"),
        (["--uri", "amqp://{address}/", "--exchange", "nope"], "unknown exchange type 'nope'"),
        (["--uri", "amqp://{address}/", "--argument", "x-max-priority=no"], "406"),
        (["--uri", "amqp://{address}/", "--argument", "nonsense"], "KEY=VALUE"),
        (["--uri", "amqp://{address}/", "--consumers", "0"], "confirms"),
        (["--uri", "amqp://{address}/", "--tls-insecure"], "amqps"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(broker, options, reason):
    address = f"{broker.host}:{broker.port}"
    result = perf("throughput", *(o.format(address=address) for o in options), *SHORT)
    assert result.exit_code == EXIT_UNUSABLE, result.output
    (line,) = result.output.strip().splitlines()
    assert line.startswith("routelog: ")
    assert reason in line


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--pid", "4194304"], "4194304"),
        (["--pid", "1", "--connections", "900000000"], "open files"),
        (["--pid", "1", "--uri", "amqp://127.0.0.1:1/"], "Connection refused"),
    ],
)
def test_idle_connections_that_cannot_be_measured_are_said_in_one_line(broker, options, reason):
    result = perf("idle", "--uri", broker.url, *options)
    assert result.exit_code == EXIT_UNUSABLE, result.output
    (line,) = result.output.strip().splitlines()
    assert line.startswith("routelog: ")
    assert reason in line


def test_a_broker_that_goes_away_is_said_in_one_line(fresh_broker):
    broker = fresh_broker()
    door = ManagementDoor(broker)

    def kill_in_the_middle() -> None:
        wait_until(lambda: any(row["messages"] for row in door.get("queues")))
        broker.kill()

    stopping = threading.Thread(target=kill_in_the_middle)
    stopping.start()
    result = perf("throughput", "--uri", broker.url, "--seconds", "20", "--no-machine")
    stopping.join()
    assert result.exit_code == EXIT_UNUSABLE, result.output
    (line,) = result.output.strip().splitlines()
    assert "connection" in line


@pytest.mark.parametrize("producers", [1, 2])
def test_a_lost_message_fails_the_run(broker, channel, producers, monkeypatch):
    monkeypatch.setattr(consumer, "STALL_SECONDS", 1.0)

    def purge(queue):
        channel.queue_purge(queue)

    assert _failure_of_a_slow_run(broker.url, producers, purge).exit_code == EXIT_WRONG


@pytest.mark.parametrize("producers", [1, 2])
def test_a_message_too_many_fails_the_run(broker, channel, producers):
    def publish(queue):
        channel.basic_publish("", queue, body_of(1, 100), TRANSIENT)

    assert _failure_of_a_slow_run(broker.url, producers, publish).exit_code == EXIT_WRONG


def test_what_a_failed_run_made_is_removed(broker, channel):
    made: list[Any] = []

    def fail(topology):
        made.extend((topology.exchange, topology.queues[0]))
        raise RunFailed("on purpose")

    workload = Workload(exchange_type=ExchangeType.FANOUT, queues=3)
    with pytest.raises(RunFailed, match="on purpose"), started(broker.url, workload) as run:
        fail(run.topology)
    exchange, queue = made
    # Others of these names, with other settings, could not be declared over them.
    channel.exchange_declare(exchange, durable=True)
    channel.queue_declare(queue, durable=True)
    channel.exchange_delete(exchange)
    channel.queue_delete(queue)


def _failure_of_a_slow_run(uri, producers, disturb):
    """What a run finds when its queue is disturbed; there is a backlog, taken a message at a time."""
    workload = Workload(producers=producers, ack_every=1, prefetch=1, run_ahead=2_000)
    try:
        with started(uri, workload) as run:
            run.start_consumers()
            run.start_producers()
            run.go()
            run.until(lambda: run.sample().published > run.sample().received + 1_000)
            disturb(run.topology.queues[0])
            run.finish()
    except RunFailed as failure:
        return failure
    raise AssertionError("nothing was noticed")


def test_latency_without_its_extra_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "routelog.benchmarks.perf.latency")
    monkeypatch.setitem(sys.modules, "hdrh", None)
    monkeypatch.setitem(sys.modules, "hdrh.histogram", None)
    result = perf("latency")
    assert result.exit_code == EXIT_UNUSABLE
    assert "install routelog-broker[perf]" in result.stderr
