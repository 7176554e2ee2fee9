# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Places batches in a segment: how many fit, and which of them get an index entry."""

import cython

from routelog.log_backend.records.record_batch import PERSISTENT, RecordBatch

_PERSISTENT = cython.declare(cython.uint, PERSISTENT)


@cython.final
@cython.cclass
class Placement:
    """The result of placing batches end to end.

    Attributes:
        end: list index behind the last batch that fits.
        size: of the segment with these batches.
        transient: some batch is not persistent.
        indexed: batches that get an index entry, each with its position.
    """

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
        """Place batches from a list index on, as many as fit; in an empty segment one always fits.

        Args:
            offset_max: the highest base offset of a batch.
            unindexed: the first batch at or behind this position gets an index entry.
            interval: bytes between two index entries.
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
