"""The messages of a digest over a connection that was given away."""

import asyncio

from routelog.log_backend import (
    LENGTH_BYTES,
    DigestMessage,
    decode_digest,
    digest_length,
    encode_digest,
)
from routelog.mirror_cluster.links.copy_stream import SILENCE_SECONDS_MAX, drained

HEARTBEAT_SECONDS = 5.0  # of a node that prepares its digest


async def send_digest(writer: asyncio.StreamWriter, message: DigestMessage) -> None:
    """Write a message; see `drained`."""
    writer.write(encode_digest(message))
    await drained(writer)


async def receive_digest(
    reader: asyncio.StreamReader, seconds: float | None = SILENCE_SECONDS_MAX
) -> DigestMessage:
    """Read the next message.

    Args:
        seconds: of silence at most; None: as long as it takes.

    Raises:
        TimeoutError: nothing came for too long.
        EOFError, OSError: the connection has ended.
        BadDigest: it is none.
    """
    async with asyncio.timeout(seconds):
        head = await reader.readexactly(LENGTH_BYTES)
    async with asyncio.timeout(seconds):
        return decode_digest(await reader.readexactly(digest_length(head)))
