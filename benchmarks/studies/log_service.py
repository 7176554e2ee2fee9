"""What reading logs over HTTP costs, beside reading the files.

    python -m routelog.benchmarks.studies.log_service --path DATA --url URL --queue Q --pid PID

Reads a queue of a broker that runs on this machine whole, in turns from its files and over HTTP, every batch
verified; prints the best of each, in processor time of the reader and of the broker. With `--spark`, Spark
reads it, in two tasks and the columns of `routelog.benchmarks.studies.spark_read`, into its no-op sink.
"""

import argparse
import os
import time
from pathlib import Path

from routelog.benchmarks.studies.spark_read import COLUMNS, WARM_UP_ROUNDS, read_cost, spark_session
from routelog.spark_bridge.logs.http_endpoint import parse_endpoint
from routelog.spark_bridge.logs.http_logs import HttpLogs
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.readable_logs import ReadableLogs

TICKS = os.sysconf("SC_CLK_TCK")


def _broker_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _read(store: ReadableLogs, queue: str, pid: int) -> tuple[float, float, int, int]:
    """Seconds of the reader's and of the broker's processors, bytes and batches."""
    own, broker = time.process_time(), _broker_seconds(pid)
    size = batches = 0
    for partition in store.partitions("/", [queue]):
        for stretch in store.extents(partition):
            for batch in store.read(stretch):
                size += batch.records.batch_bytes
                batches += 1
    return time.process_time() - own, _broker_seconds(pid) - broker, size, batches


def _compare_queries(given: argparse.Namespace) -> None:
    """Print what the best query of each kind took, by the clock and of all processors."""
    spark = spark_session()
    try:
        places = {"files": ("path", str(given.path)), "HTTP": ("url", given.url)}
        frames = {
            name: spark.read.format("routelog")
            .schema(COLUMNS)
            .option("subscribe", given.queue)
            .option(*place)
            .load()
            for name, place in places.items()
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in frames}
        for _ in range(given.rounds + WARM_UP_ROUNDS):
            for name, frame in frames.items():
                broker = _broker_seconds(given.pid)
                seconds, cpu = read_cost(spark, frame)
                found[name].append((seconds, cpu + _broker_seconds(given.pid) - broker))
    finally:
        spark.stop()
    print("| Query | Seconds | CPU s, with the broker's |\n|---|---|---|")
    best = {}
    for name, rounds in found.items():
        best[name] = [min(column) for column in zip(*rounds[WARM_UP_ROUNDS:], strict=True)]
        print(f"| {name} | {best[name][0]:.2f} | {best[name][1]:.2f} |")
    seconds, cpu = (best["files"][unit] / best["HTTP"][unit] for unit in (0, 1))
    print(f"speed over HTTP to that of files: {seconds:.2f}; of the processors: {cpu:.2f}")


def main() -> None:
    """Read, in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--path", type=Path, required=True, help="the broker's data directory")
    parser.add_argument("--url", required=True, help="of its HTTP API")
    parser.add_argument("--queue", required=True)
    parser.add_argument("--pid", type=int, required=True, help="the broker's process")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spark", action="store_true", help="whole queries")
    given = parser.parse_args()
    if given.spark:
        _compare_queries(given)
        return
    stores: dict[str, ReadableLogs] = {
        "files": LogDirectory(given.path),
        "HTTP": HttpLogs(parse_endpoint(given.url, {}, 60.0, 0), {}),
    }
    found: dict[str, list[tuple[float, float, int, int]]] = {name: [] for name in stores}
    for _ in range(given.rounds):
        for name, store in stores.items():
            found[name].append(_read(store, given.queue, given.pid))
    best = {name: min(rounds, key=lambda each: each[0] + each[1]) for name, rounds in found.items()}
    size, batches = best["files"][2:]
    print(f"{size / 1e6:,.0f} MB in {batches:,} batches")
    print("| From | Reader, CPU s | Broker, CPU s | MB per CPU s |\n|---|---|---|---|")
    for name, (reader, broker, *_) in best.items():
        print(f"| {name} | {reader:.2f} | {broker:.2f} | {size / 1e6 / (reader + broker):,.0f} |")
    both = {name: sum(each[:2]) for name, each in best.items()}
    print(f"speed over HTTP to that of files: {both['files'] / both['HTTP']:.2f}")


if __name__ == "__main__":
    main()
