"""RabbitMQ's PerfTest, a client of another house, against brokers in turn.

    python -m routelog.benchmarks.studies.perf_test --rounds 3 --seconds 10

PerfTest comes from Maven Central (`mvn`, `java`). Prints for each row the medians of the rounds: messages a
second, the median latency of a message, and the broker's processor time for one.
"""

import argparse
import re
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from routelog.benchmarks.brokers.broker_process import Broker
from routelog.benchmarks.studies.in_turns import BROKERS, Measure, print_in_turns

VERSION = "2.22.1"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>bench</artifactId><version>1</version>
<dependencies><dependency><groupId>com.rabbitmq</groupId><artifactId>perf-test</artifactId>
<version>{version}</version></dependency></dependencies></project>
"""
_START_SECONDS = 60  # Java's, on a busy machine
_RECEIVED = re.compile(r"receiving rate avg: ([\d.]+) msg/s")
_LATENCY = re.compile(r"consumer latency min/median/75th/95th/99th \S*?\d+/(\d+)/\d+/\d+/\d+ (.s)")
_MILLISECONDS = {"ms": 1.0, "µs": 1e-3, "ns": 1e-6}

# Options of PerfTest: producers, consumers, confirms in flight, prefetch, deliveries for an ack, bytes.
ROWS = {
    "1 and 1, durable, 200 in flight": "-x 1 -y 1 -c 200 -q 100 -A 1 -s 100 -f persistent -ad false",
    "10 and 10 of one queue, 10 in flight": "-x 10 -y 10 -u perf-test -c 10 -q 10 -A 1 -s 100",
    "1 and 1, 1 KiB, automatic acks": "-x 1 -y 1 -a -s 1024",
    "1 and 1, 1 KiB, durable, 5,000 a second": "-x 1 -y 1 -r 5000 -c 200 -q 100 -s 1024 -f persistent",
}


def fetch(folder: Path) -> str:
    """Fetch PerfTest and what it needs; gives Java's class path."""
    (folder / "pom.xml").write_text(_POM.format(version=VERSION))
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}/lib"]
    subprocess.run([*command, "-DincludeScope=runtime"], cwd=folder, check=True)
    return f"{folder}/lib/*"


def run(class_path: str, options: str, seconds: int, broker: Broker) -> tuple[float, float, float]:
    """Run PerfTest once: deliveries a second, median latency in ms, µs of the broker's processor for one.

    Raises:
        ValueError: it gave no figures.
    """
    command = ["java", "-cp", class_path, "com.rabbitmq.perf.PerfTest"]
    uri = broker.uri.removesuffix("/")  # Java takes "/" for a vhost without a name
    before = broker.cpu_seconds()
    ran = subprocess.run(
        [*command, "-h", uri, "-z", str(seconds), *options.split()],
        check=True,
        capture_output=True,
        text=True,
        timeout=seconds + _START_SECONDS,
    )
    used = broker.cpu_seconds() - before
    received, latency = _RECEIVED.search(ran.stdout), _LATENCY.search(ran.stdout)
    if received is None or latency is None:
        raise ValueError(f"PerfTest gave no figures:\n{ran.stdout[-2000:]}")
    rate = float(received[1])
    median = float(latency[1]) * _MILLISECONDS[latency[2]]
    return rate, median, used / max(1.0, rate * seconds) * 1e6


def main() -> None:
    """Fetch PerfTest, and run it against each broker in turn."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--broker", action="append", choices=[*BROKERS])
    parser.add_argument("--folder", type=Path, help="for the brokers' data; default: below /tmp")
    given = parser.parse_args()
    names = given.broker or [*BROKERS]
    columns = {"Messages/s": ",.0f", "Median latency, ms": ".2f", "Processor, µs": ".1f"}
    with tempfile.TemporaryDirectory(prefix="routelog-perf-test-", dir=given.folder) as made:
        class_path = fetch(Path(made))
        rows: dict[str, Measure] = {
            row: partial(run, class_path, options, given.seconds) for row, options in ROWS.items()
        }
        print_in_turns(rows, columns, Path(made), names, given.rounds)


if __name__ == "__main__":
    main()
