# cython: annotation_typing=False
"""Where batches go in a segment: how many fit, and which of them its index names."""

import cython

from routelog.log_backend.records.record_batch import PERSISTENT, RecordBatch

_PERSISTENT = cython.declare(cython.uint, PERSISTENT)


@cython.final
@cython.cclass
class Placement:
    """Batches that are placed one behind the other.

    Attributes:
        end: index behind the last one that fits.
        size: of the segment with them.
        transient: some batch is not persistent.
        indexed: batches that begin an index interval, each with its position.
    """

    __slots__ = ("end", "indexed", "size", "transient")

    def __init__(self, size: int) -> None:
        self.end = 0
        self.size = size
        self.transient = False
        self.indexed: list[tuple[RecordBatch, int]] = []

    @cython.locals(
        batches=list,
        at=cython.Py_ssize_t,
        size_max=cython.longlong,
        offset_max=cython.longlong,
        unindexed=cython.longlong,
        interval=cython.longlong,
        batch=RecordBatch,
        length=cython.longlong,
        size=cython.longlong,
    )
    def place(
        self,
        batches: list[RecordBatch],
        at: int,
        size_max: int,
        offset_max: int,
        unindexed: int,
        interval: int,
    ) -> None:
        """Place batches from an index on, as many as fit; an empty segment has room for one.

        Args:
            offset_max: none begins behind it.
            unindexed: from this position on, a batch begins an index interval.
            interval: bytes of one.
        """
        size = self.size
        while at < len(batches):
            batch = batches[at]
            length = 64 + len(batch.records.payload)
            if size and (size + length > size_max or batch.base_offset > offset_max):
                break
            if size >= unindexed:
                self.indexed.append((batch, size))
                unindexed = size + interval
            if not batch.records.attributes & _PERSISTENT:
                self.transient = True
            size += length
            at += 1
        self.end = at
        self.size = size
