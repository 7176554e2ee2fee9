"""Bytes of a connection that was given away, to be read and written in order."""

import asyncio

from routelog.mirror_cluster.protocol.copy_format import PIECE_BYTES

# Without a byte: a machine that has gone says nothing. A disk that a full checkpoint keeps busy is quicker.
SILENCE_SECONDS_MAX = 30.0

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
