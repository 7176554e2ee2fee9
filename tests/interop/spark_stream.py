"""A stream over logs and what arrived of it, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

# Spark gives a Python process 10 s to start; beside many others it may take longer.
STARVED = "Python worker failed to connect back"
STARTS_MAX = 10

SCHEMA = "queue string, partition int, offset long, body binary"


def run_to_its_end(writer: DataStreamWriter) -> None:
    """Run a query that ends by itself; its checkpoint carries it over starts that fail."""
    for _ in range(STARTS_MAX):
        query = writer.start()
        try:
            query.awaitTermination()
            return
        except StreamingQueryException as error:
            if STARVED not in str(error):
                raise
        finally:
            query.stop()
    raise AssertionError(STARVED)


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
        run_to_its_end(self._writer().trigger(availableNow=True))
        return self.offsets[before:]

    def _writer(self) -> DataStreamWriter:
        frame = self._spark.readStream.format("routelog").schema(SCHEMA).options(**self._options)
        writer = frame.load().writeStream.option("checkpointLocation", str(self.checkpoint))
        return writer.foreachBatch(self._arrived)

    def _arrived(self, frame: DataFrame, batch: int) -> None:
        rows = frame.select("queue", "partition", "offset").collect()
        self.batches.append((batch, sorted(map(tuple, rows))))
