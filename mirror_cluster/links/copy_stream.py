"""Bytes of a connection that was given away, to be read and written in order."""

import asyncio

from routelog.log_backend import (
    DIGEST_LENGTH_BYTES,
    DigestMessage,
    decode_digest,
    digest_length,
    encode_digest,
)
from routelog.mirror_cluster.protocol.copy_format import PIECE_BYTES
from routelog.mirror_cluster.protocol.message_format import (
    LENGTH_BYTES,
    decode_message,
    encode_message,
    message_bytes,
)
from routelog.mirror_cluster.protocol.messages import Message

# Without a byte: a machine that has gone says nothing. A disk that a full checkpoint keeps busy is quicker.
SILENCE_SECONDS_MAX = 30.0
HEARTBEAT_SECONDS = 5.0  # of a node that prepares its digest

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def stream_over(transport: asyncio.Transport, unread: bytes) -> Stream:
    """Read and write a connection; see `NodeLink.give_away`."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(PIECE_BYTES, loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    transport.set_write_buffer_limits(PIECE_BYTES)
    reader.feed_data(unread)
    transport.resume_reading()
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def drained(writer: asyncio.StreamWriter) -> None:
    """Wait until the other end has taken most of what was written.

    Raises:
        TimeoutError: it has taken nothing for too long.
        OSError: the connection has ended.
    """
    async with asyncio.timeout(SILENCE_SECONDS_MAX):
        await writer.drain()


async def send_message(writer: asyncio.StreamWriter, message: Message) -> None:
    """Write a message; see `drained`."""
    writer.write(encode_message(message))
    await drained(writer)


async def receive_message(reader: asyncio.StreamReader) -> Message:
    """Read the next message.

    Raises:
        TimeoutError: nothing came for too long.
        EOFError, OSError: the connection has ended.
        BadMessage: it is none.
    """
    async with asyncio.timeout(SILENCE_SECONDS_MAX):
        head = await reader.readexactly(LENGTH_BYTES)
    async with asyncio.timeout(SILENCE_SECONDS_MAX):
        rest = await reader.readexactly(message_bytes(head) - LENGTH_BYTES)
    whole = bytearray(head + rest)
    found = decode_message(whole, 0, len(whole))
    assert found is not None, "it is there in full"
    return found[0]


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
        head = await reader.readexactly(DIGEST_LENGTH_BYTES)
    async with asyncio.timeout(seconds):
        return decode_digest(await reader.readexactly(digest_length(head)))
