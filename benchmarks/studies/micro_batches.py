"""The time of Spark's micro-batches of few records: of RouteLog, and of a minimal source in Python."""

import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

TASKS = 2
ROWS = 16  # of a micro-batch
MICRO_BATCHES = 30
WARM_UP = 10  # micro-batches
FILE_MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
DEFAULT_MANAGER = "FileContextBasedCheckpointFileManager"
QUICK_MANAGER = "FileSystemBasedCheckpointFileManager"


class NumbersReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Two tasks with a few numbers each, made up in memory."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The first number."""
        return {"n": 0}

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, int], limit: ReadLimit
    ) -> dict[str, int]:
        """Some more numbers, until there are enough."""
        return {"n": min(start["n"] + ROWS, MICRO_BATCHES * ROWS)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The size of a micro-batch."""
        return ReadMaxRows(ROWS)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing to do: the stream ends anyway."""

    def partitions(self, start: object, end: object) -> list[InputPartition]:
        """Both tasks."""
        return [InputPartition(task) for task in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A task's numbers."""
        yield pa.RecordBatch.from_pydict({"n": list(range(ROWS // TASKS))})


class Numbers(DataSource):
    """A minimal stream in Python: its time is Spark's own."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "numbers"

    def schema(self) -> str:
        """One column."""
        return "n long"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The stream."""
        return NumbersReader()


def micro_batch_floor(
    spark: SparkSession, data: Path, columns: str, folder: str, rounds: int
) -> None:
    """Print how long micro-batches of few records take, of ours and of numbers from nowhere, in turns.

    Both ways of Spark to write a checkpoint are used: its default starts ten processes for each file.

    Args:
        data: a data directory with partitions of a queue `orders`.
        folder: for checkpoints.
    """
    spark.dataSource.register(Numbers)
    frames: dict[str, Callable[[], DataFrame]] = {
        "RouteLog": lambda: _orders(spark, data, columns),
        "numbers": spark.readStream.format("numbers").load,
    }
    took: dict[tuple[str, str], list[int]] = {}
    for turn in range(rounds):
        for manager in (DEFAULT_MANAGER, QUICK_MANAGER):
            spark.conf.set(FILE_MANAGER, f"{FILE_MANAGERS}.{manager}")
            for name, frame in frames.items():
                checkpoint = f"{folder}/{name}-{manager}-{turn}"
                took.setdefault((manager, name), []).extend(_durations(frame(), checkpoint))
    print(
        f"| Checkpoint | Micro-batches of {TASKS} tasks | Best ms | Median ms |\n|---|---|---|---|"
    )
    for (manager, name), milliseconds in took.items():
        median = statistics.median(milliseconds)
        print(f"| {manager} | {name} | {min(milliseconds)} | {median:.0f} |")
    for manager in (DEFAULT_MANAGER, QUICK_MANAGER):
        ours, least = took[manager, "RouteLog"], took[manager, "numbers"]
        medians = statistics.median(least) / statistics.median(ours)
        best = min(least) / min(ours)
        print(f"{manager}: numbers' to ours {best:.2f} at best, {medians:.2f} in the median")


def _orders(spark: SparkSession, data: Path, columns: str) -> DataFrame:
    partitions = len(list((data / "logs").glob("*/orders-*")))
    end = MICRO_BATCHES * ROWS // partitions
    ends = json.dumps({"orders": {str(number): end for number in range(partitions)}})
    limits = {"maxOffsetsPerTrigger": str(ROWS), "maxRecordsPerPartition": str(ROWS // TASKS)}
    reader = spark.readStream.format("routelog").schema(columns)
    where = reader.options(path=str(data), subscribe="orders", endingOffsets=ends)
    return where.options(startingOffsets="earliest", **limits).load()


def _durations(frame: DataFrame, checkpoint: str) -> list[int]:
    """Milliseconds of each micro-batch, those to warm up left out."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    took = [
        each.durationMs["triggerExecution"] for each in query.recentProgress if each.numInputRows
    ]
    return took[WARM_UP:]
