# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Merges small batches into larger ones on their way into a segment.

What clients publish one by one comes as batches of one record. As such they would be slow to read for ever:
each batch has a header, a checksum and offsets of its own. The records, their offsets and their order stay.

A merged batch has the time of its first record and that of its last one; the others lie between, in the same
second of the clock. So each whole second can be found as before, which is all that a client of AMQP can ask
for. What goes by the time of a record that was read from a segment comes late, by less than a second, and never
early. Records with an expiration of their own are not merged, nor those that exchanges hold or remember.
"""

import cython

from routelog.log_backend.records.record_batch import (
    EXPIRING,
    KEY_COLUMN,
    RecordBatch,
    Records,
    new_batch,
)
from routelog.log_backend.records.record_joining import join_records

SMALL_BYTES_MAX = (
    16_384  # a larger batch is as quick to read as a merged one, and would take long to copy
)
MERGED_RECORDS_MAX = 4_096
MERGED_BYTES_MAX = 262_144
SECOND = 1_000_000  # microseconds

_SMALL_BYTES_MAX = cython.declare(cython.Py_ssize_t, SMALL_BYTES_MAX)
_MERGED_RECORDS_MAX = cython.declare(cython.Py_ssize_t, MERGED_RECORDS_MAX)
_SECOND = cython.declare(cython.longlong, SECOND)
_EXPIRING = cython.declare(cython.uint, EXPIRING)
_KEY_COLUMN = cython.declare(cython.uint, KEY_COLUMN)


@cython.locals(
    batch=RecordBatch,
    first=RecordBatch,
    last=RecordBatch,
    bytes_max=cython.Py_ssize_t,
    size=cython.Py_ssize_t,
    own=cython.Py_ssize_t,
    count=cython.Py_ssize_t,
    found=list,
    run=list,
)
def merged(batches: list[RecordBatch], bytes_max: int) -> list[RecordBatch]:
    """Join small batches that follow one another, where they are alike.

    Args:
        batches: of one partition, in order.
        bytes_max: of a merged batch, if that is less than `MERGED_BYTES_MAX`.
    """
    bytes_max = min(bytes_max, MERGED_BYTES_MAX)
    found: list[RecordBatch] = []
    run: list[RecordBatch] = []
    first = last = None
    size = count = 0
    for batch in batches:
        own = len(batch.records.payload)
        if not (
            first is not None
            and size + own <= bytes_max
            and own <= _SMALL_BYTES_MAX
            and count + batch.records.count <= _MERGED_RECORDS_MAX
            and _follows(first, last, batch)
        ):
            if run:
                found.append(_joined(run))
            run, size, count = [], 0, 0
            first = batch if own <= _SMALL_BYTES_MAX else None
        run.append(batch)
        last = batch
        size += own
        count += batch.records.count
    if run:
        found.append(_joined(run))
    return found


@cython.cfunc
@cython.returns(cython.bint)
@cython.exceptval(-1)
@cython.locals(
    first=RecordBatch, last=RecordBatch, batch=RecordBatch, of_first=Records, records=Records
)
def _follows(first: RecordBatch, last: RecordBatch, batch: RecordBatch) -> bool:
    of_first, records = first.records, batch.records
    return (
        batch.base_offset == last.end_offset
        and batch.leader_epoch == first.leader_epoch
        and (records.attributes ^ of_first.attributes) & ~_KEY_COLUMN == 0
        and not records.attributes & _EXPIRING
        and records.exchange == of_first.exchange
        and last.records.last_time <= records.time
        and records.last_time // _SECOND == of_first.time // _SECOND
    )


@cython.cfunc
@cython.returns(RecordBatch)
@cython.locals(run=list, first=RecordBatch)
def _joined(run: list[RecordBatch]) -> RecordBatch:
    first = run[0]
    if len(run) == 1:
        return first
    records = join_records([cython.cast(RecordBatch, batch).records for batch in run])
    return new_batch(records, first.base_offset, first.leader_epoch)
