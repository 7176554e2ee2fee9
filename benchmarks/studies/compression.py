"""What compression of segments saves and costs: `python -m routelog.benchmarks.studies.compression`.

Orders as JSON, 100 to a batch, packed as the broker packs a sealed segment, by one thread.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise

import lz4.block
import zstandard

from routelog.log_backend.segments.compressed_segment import BLOCK_BYTES

STREAM_BYTES = 32 * 1024 * 1024
BATCH_MESSAGES = 100
LEVELS = (1, 3, 6, 9)

Codec = tuple[Callable[[bytes], bytes], Callable[[bytes, int], bytes]]


def _orders() -> Iterator[bytes]:
    choice = random.Random(1)
    number = 0
    while True:
        number += 1
        lines = [
            {"sku": f"SKU-{choice.randrange(99_999):05}", "count": choice.randrange(1, 9)}
            for _ in range(choice.randrange(1, 4))
        ]
        order = {
            "id": number,
            "order": f"{choice.getrandbits(64):016x}",
            "customer": f"c{choice.randrange(5_000)}@example.org",
            "status": choice.choice(["created", "paid", "shipped"]),
            "amount": round(choice.random() * 1_000, 2),
            "currency": "EUR",
            "items": lines,
            "created_at": f"2024-05-{choice.randrange(1, 28):02}T{choice.randrange(24):02}:00:00Z",
        }
        yield json.dumps(order).encode()


def _blocks() -> list[bytes]:
    """The columns of such batches, cut into blocks."""
    stream = bytearray()
    orders = _orders()
    while len(stream) < STREAM_BYTES:
        bodies = [next(orders) for _ in range(BATCH_MESSAGES)]
        ends = accumulate(map(len, bodies), initial=0)
        stream += b"".join(end.to_bytes(4, "little") for end in ends)
        stream += b"".join(position.to_bytes(4, "little") for position in range(0, 404, 4))
        stream += b"".join(bodies)
    cuts = [*range(0, len(stream), BLOCK_BYTES), len(stream)]
    return [bytes(stream[start:end]) for start, end in pairwise(cuts)]


def _codecs() -> Iterator[tuple[str, Codec]]:
    def unpack_lz4(content: bytes, length: int) -> bytes:
        raw: bytes = lz4.block.decompress(content, uncompressed_size=length)
        return raw

    unpack_zstd = zstandard.ZstdDecompressor()
    for level in LEVELS:
        pack_zstd = zstandard.ZstdCompressor(level=level)
        yield f"zstd {level}", (pack_zstd.compress, lambda c, _: unpack_zstd.decompress(c))
    yield "lz4", (lambda raw: lz4.block.compress(raw, store_size=False), unpack_lz4)
    for level in (4, 9):
        yield (
            f"lz4 high {level}",
            (lambda raw, level=level: _lz4_high(raw, level), unpack_lz4),  # type: ignore[misc]
        )


def _lz4_high(raw: bytes, level: int) -> bytes:
    content: bytes = lz4.block.compress(
        raw, mode="high_compression", compression=level, store_size=False
    )
    return content


def main() -> None:
    """Print a row for each codec and level; times are of this thread alone."""
    blocks = _blocks()
    size = sum(map(len, blocks))
    print("| Codec, level | Ratio | Packing | Unpacking |\n|---|---|---|---|")
    for name, (pack, unpack) in _codecs():
        begun = time.thread_time()
        packed = [pack(block) for block in blocks]
        between = time.thread_time()
        for content, block in zip(packed, blocks, strict=True):
            unpack(content, len(block))
        ended = time.thread_time()
        ratio = size / sum(map(len, packed))
        speeds = [size / seconds / 1e6 for seconds in (between - begun, ended - between)]
        print(f"| {name} | {ratio:.1f} | {speeds[0]:,.0f} MB/s | {speeds[1]:,.0f} MB/s |")


if __name__ == "__main__":
    main()
