"""A stream over logs and what arrived of it, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

# Spark gives a Python process 10 s to start; beside many others it may take longer.
STARVED = "Python worker failed to connect back"
STARTS_MAX = 10

SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))

SCHEMA = "queue string, partition int, offset long, body binary"


def run_to_its_end(writer: DataStreamWriter, checkpoint: Path) -> None:
    """Run a query that ends by itself until it has read what there is.

    Its checkpoint carries it over starts that fail, and, before Spark 4.2, from one micro-batch to the next.
    """
    while True:
        done = _commits(checkpoint)
        _run_once(writer)
        if SPARK >= (4, 2) or _commits(checkpoint) == done:
            return


def _run_once(writer: DataStreamWriter) -> None:
    for _ in range(STARTS_MAX):
        query = None
        try:
            query = writer.start()
            query.awaitTermination()
            return
        except PySparkException as error:
            if STARVED not in str(error):
                raise
        finally:
            if query is not None:
                query.stop()
    raise AssertionError(STARVED)


def _commits(checkpoint: Path) -> int:
    """Micro-batches that have been done."""
    return sum(path.name.isdecimal() for path in (checkpoint / "commits").glob("*"))


class Stream:
    """One query as its user sees it: options, a checkpoint, and the batches that arrived.

    Attributes:
        batches: of each micro-batch that arrived, its number and (queue, partition, offset)s.
    """

    def __init__(self, spark: SparkSession, root: Path, **options: str) -> None:
        self.checkpoint = root / "checkpoint"
        self.batches: list[tuple[int, list[tuple[str, int, int]]]] = []
        self._spark = spark
        self._options = options

    @property
    def offsets(self) -> list[tuple[str, int, int]]:
        """All that arrived."""
        return [each for _, batch in self.batches for each in batch]

    def start(self, **trigger: Any) -> StreamingQuery:
        """Begin, or go on at the checkpoint."""
        return self._writer().trigger(**trigger).start()

    def run(self) -> list[tuple[str, int, int]]:
        """Read what there is, then stop; returns what arrived meanwhile."""
        before = len(self.offsets)
        run_to_its_end(self._writer().trigger(availableNow=True), self.checkpoint)
        return self.offsets[before:]

    def _writer(self) -> DataStreamWriter:
        frame = self._spark.readStream.format("routelog").schema(SCHEMA).options(**self._options)
        writer = frame.load().writeStream.option("checkpointLocation", str(self.checkpoint))
        return writer.foreachBatch(self._arrived)

    def _arrived(self, frame: DataFrame, batch: int) -> None:
        rows = frame.select("queue", "partition", "offset").collect()
        self.batches.append((batch, sorted(map(tuple, rows))))
