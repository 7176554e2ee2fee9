"""A stream over logs and what arrived of it, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

SCHEMA = "queue string, partition int, offset long, body binary"


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
        frame = self._spark.readStream.format("routelog").schema(SCHEMA).options(**self._options)
        writer = frame.load().writeStream.option("checkpointLocation", str(self.checkpoint))
        return writer.foreachBatch(self._arrived).trigger(**trigger).start()

    def run(self) -> list[tuple[str, int, int]]:
        """Read what there is, then stop; returns what arrived meanwhile."""
        before = len(self.offsets)
        query = self.start(availableNow=True)
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return self.offsets[before:]

    def _arrived(self, frame: DataFrame, batch: int) -> None:
        rows = frame.select("queue", "partition", "offset").collect()
        self.batches.append((batch, sorted(map(tuple, rows))))
