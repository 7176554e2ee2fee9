"""The cost of reading logs in Spark, beside Spark's own Parquet with the same records.

    python -m routelog.benchmarks.studies.spark_read --megabytes 1000 --folder DIR

Orders as JSON in segments of several partitions, and the same records as Parquet, a file for each segment. Both
are read whole into Spark's no-op sink, in turns, and with `--write` copied to Parquet: packed, as each does by
itself, and in a task for each segment or file. Then a stream reads them in small micro-batches of two tasks. Of
the processors' time the median counts: Spark ends Python processes, and what those took is not known.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from array import array
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from routelog.benchmarks.studies.micro_batches import TASKS, micro_batch_floor
from routelog.log_backend import RecordBatch, Records, encode_records
from routelog.log_backend.segments.log_directory import partition_directory, segment_path
from routelog.spark_bridge import register

PARTITIONS = 8
SEGMENTS = 2  # of each partition
BATCH_RECORDS = 1_000
BODY_BYTES = 753  # mean
NO_PROPERTIES = b"\x00\x00"
COLUMNS = (
    "queue string, partition int, offset long, timestamp timestamp, routing_key string, body binary"
)
WARM_UP_ROUNDS = 2
SPARKS_COST_OF_FILE = "4m"  # Spark's default
TICKS = os.sysconf("SC_CLK_TCK")


def _records(choice: random.Random, first: int) -> Records:
    source = bytearray()
    table = array("i")
    for number in range(first, first + BATCH_RECORDS):
        note = f"{choice.getrandbits(4 * choice.randrange(2 * BODY_BYTES - 200)):x}"
        body = json.dumps({"id": number, "customer": number % 5_000, "note": note}).encode()
        for part in (b"", NO_PROPERTIES, body):
            table.extend((len(source), len(part)))
            source += part
    now = time.time_ns() // 1000
    view, rows = memoryview(source), memoryview(table)
    content: Records = encode_records(
        view, rows, None, BATCH_RECORDS, b"orders", b"order.created", 0, now
    )
    return content


def write_logs(data: Path, megabytes: int) -> int:
    """Fill the partitions of a queue `orders`; returns the bytes of all segments."""
    choice = random.Random(1)
    batches = max(megabytes * 1_000_000 // (PARTITIONS * SEGMENTS * BATCH_RECORDS * BODY_BYTES), 1)
    size = 0
    for partition in range(PARTITIONS):
        directory = partition_directory(data / "logs", "/", "orders", partition)
        directory.mkdir(parents=True)
        offset = 0
        for _ in range(SEGMENTS):
            with segment_path(directory, offset).open("wb") as file:
                for _ in range(batches):
                    batch = RecordBatch(_records(choice, offset), offset, 1)
                    size += file.write(batch.header()) + file.write(batch.records.payload)
                    offset = batch.end_offset
    return size


class LogFrames(NamedTuple):
    """The same logs in tasks as they come, and in a task for each segment."""

    packed: DataFrame
    apart: DataFrame


def spark_session(*, unix_socket: bool = False) -> SparkSession:
    """A session of Spark on this machine that knows the format.

    Args:
        unix_socket: between the JVM and Python, from Spark 4.1 on, rather than TCP.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = (
        SparkSession.builder.master(f"local[{TASKS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.streaming.pollingDelay", "1ms")
        .config("spark.python.unix.domain.socket.enabled", str(unix_socket).lower())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    return spark


def _cpu_seconds(root: int) -> float:
    """Processor time of a process and all its descendants, ended ones included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            number = int(path.parent.name)
            parents[number] = int(fields[1])
            ticks[number] = sum(map(int, fields[11:15]))
    return sum(ticks[each] for each in parents if _descends(each, root, parents)) / TICKS


def _descends(process: int, root: int, parents: dict[int, int]) -> bool:
    while process != root and process in parents:
        process = parents[process]
    return process == root


def read_cost(
    spark: SparkSession, frame: DataFrame, folder: str | None = None
) -> tuple[float, float]:
    """Seconds, and seconds of the processors, of reading all of a frame, or of copying it to Parquet."""
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    cpu, begun = _cpu_seconds(jvm), time.perf_counter()
    if folder is None:
        frame.write.format("noop").mode("overwrite").save()
    else:
        frame.write.mode("overwrite").parquet(folder)
    return time.perf_counter() - begun, _cpu_seconds(jvm) - cpu


def compare(
    spark: SparkSession, logs: LogFrames, parquet: str, rounds: int, copy: str | None = None
) -> None:
    """Read all ways in turns and print the best of each; two rounds warm up.

    Args:
        copy: a folder to copy them to; None: they are only read.
    """
    logs.apart.write.mode("overwrite").parquet(parquet)
    rows = logs.packed.count()
    measured: dict[str, list[tuple[float, float]]] = {}
    tasks: dict[str, int] = {}
    for _ in range(rounds + WARM_UP_ROUNDS):
        for kind, frame, cost_of_file in (
            ("packed", logs.packed, SPARKS_COST_OF_FILE),
            ("a task each", logs.apart, "1g"),
        ):
            spark.conf.set("spark.sql.files.openCostInBytes", cost_of_file)
            for name, source in (("RouteLog", frame), ("Parquet", spark.read.parquet(parquet))):
                cost = read_cost(spark, source, copy)
                measured.setdefault(f"{name}, {kind}", []).append(cost)
                tasks[f"{name}, {kind}"] = source.rdd.getNumPartitions()
    what = "No-op read" if copy is None else "Copy to Parquet"
    print(f"| {what} | Tasks | Seconds | Records/s | CPU seconds | Theirs to ours | of CPU |")
    print("|---|---|---|---|---|---|---|")
    best = {name: _best(costs[WARM_UP_ROUNDS:]) for name, costs in measured.items()}
    for name, (seconds, cpu) in best.items():
        ours = best[f"RouteLog, {name.partition(', ')[2]}"]
        print(
            f"| {name} | {tasks[name]} | {seconds:.2f} | {rows / seconds:,.0f} | {cpu:.2f} ", end=""
        )
        print(f"| {seconds / ours[0]:.2f} | {cpu / ours[1]:.2f} |")


def _best(costs: list[tuple[float, float]]) -> tuple[float, float]:
    """The least seconds, and the median of those of the processors."""
    return min(cost[0] for cost in costs), statistics.median(cost[1] for cost in costs)


def main() -> None:
    """Make the data, measure, and remove it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1_000, help="of bodies")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="for the data; default: below /tmp")
    parser.add_argument("--write", action="store_true", help="also copy both to Parquet")
    parser.add_argument("--unix-socket", action="store_true", help="between JVM and Python")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="routelog-spark-", dir=given.folder) as folder:
        data = Path(folder) / "data"
        size = write_logs(data, given.megabytes)
        print(f"{size / 1e6:,.0f} MB of segments, {PARTITIONS} partitions")
        spark = spark_session(unix_socket=given.unix_socket)
        try:
            reader = spark.read.format("routelog").schema(COLUMNS)
            reader = reader.options(path=str(data), subscribe="orders")
            logs = LogFrames(
                reader.load(), reader.option("minPartitions", PARTITIONS * SEGMENTS).load()
            )
            compare(spark, logs, f"{folder}/parquet", given.rounds)
            if given.write:
                compare(spark, logs, f"{folder}/parquet", given.rounds, f"{folder}/copy")
            micro_batch_floor(spark, data, COLUMNS, f"{folder}/checkpoints", given.rounds)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
