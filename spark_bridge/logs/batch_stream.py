"""Cuts the bytes of an HTTP response into record batches while they are received."""

from collections.abc import Callable, Iterator

from routelog.log_backend.records.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    RecordBatch,
    batch_bytes,
    decode_batch,
    decode_header,
    new_buffer,
)
from routelog.spark_bridge.logs.errors import DamagedSegment

# Received at once; a batch that is cut off at the end is copied to the next buffer.
STRETCH_BYTES = 2 * 1024 * 1024


def batch_stream(
    read_into: Callable[[memoryview], int], size: int, place: str
) -> Iterator[RecordBatch]:
    """Yield the batches in `size` bytes, checksums verified; they are views of the receive buffer.

    Args:
        read_into: fills a part of a view, and returns its size; 0 if the connection was closed.
        place: where the batches come from, for errors.

    Raises:
        DamagedSegment: the bytes are no whole batches.
        ConnectionError: there are fewer bytes.
    """
    done = 0  # bytes of batches that were yielded
    rest = memoryview(b"")
    try:
        while done < size:
            wanted = max(STRETCH_BYTES, _length(rest))
            buffer = memoryview(new_buffer(min(wanted, size - done)))
            buffer[: len(rest)] = rest
            _fill(buffer, len(rest), read_into)
            at = 0
            while len(buffer) - at >= HEADER_BYTES:
                length = batch_bytes(buffer, at)
                if length > len(buffer) - at:
                    break
                yield decode_batch(buffer, at)
                at += length
                done += length
            rest = buffer[at:]
            if at == 0 and len(buffer) == size - done:
                raise CorruptBatch("it is cut off")
    except CorruptBatch as error:
        raise DamagedSegment(place, done, error.reason) from None


def _length(beginning: memoryview) -> int:
    """Length of the batch that begins here; the header is checked before so much memory is allocated."""
    if len(beginning) < HEADER_BYTES:
        return 0
    decode_header(beginning[:HEADER_BYTES])
    return batch_bytes(beginning, 0)


def _fill(buffer: memoryview, filled: int, read_into: Callable[[memoryview], int]) -> None:
    while filled < len(buffer):
        count = read_into(buffer[filled:])
        if not count:
            raise ConnectionError("the answer was cut off")
        filled += count
