"""Answers with a stretch of a segment, sent by the kernel (sendfile) from plain files to plain sockets."""

import asyncio
import os
from collections.abc import Mapping

from aiohttp import web

from routelog.log_backend import StoredLogs, StoredStretch
from routelog.management.calls.failures import Refused

SENDS_MAX = 64  # at a time; each holds two descriptors


class StoredAnswers:
    """The stored answers that are under way."""

    def __init__(self, logs: StoredLogs) -> None:
        self._logs = logs
        self._under_way = 0

    async def answer(
        self, request: web.Request, stretch: StoredStretch, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Send a stretch, and close it.

        Raises:
            Refused: too many are being sent.
        """
        try:
            if self._under_way >= SENDS_MAX:
                raise Refused(503, "busy", f"{SENDS_MAX} stretches of logs are being sent")
            self._under_way += 1
            try:
                return await self._sent(request, stretch, headers)
            finally:
                self._under_way -= 1
        finally:
            stretch.close()

    async def _sent(
        self, request: web.Request, stretch: StoredStretch, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        covered = f"{stretch.start}-{stretch.end}"
        response = web.StreamResponse(headers={**headers, "RouteLog-Offsets": covered})
        response.content_type = "application/octet-stream"
        response.content_length = stretch.size
        transport, descriptor = request.transport, stretch.descriptor
        if transport is None or request.method == "HEAD":
            return response
        # `drain` then waits until the head of the answer is sent, before the kernel copies the body.
        transport.set_write_buffer_limits(high=0)
        await response.prepare(request)
        try:
            await request.writer.drain()
            transport.set_write_buffer_limits()
            if descriptor is None or transport.get_extra_info("sslcontext") is not None:
                async for piece in self._logs.pieces(stretch):
                    await response.write(piece)
            else:
                await self._copied(transport, stretch, descriptor)
            await response.write_eof()
        except (ConnectionError, TimeoutError):
            # The reader left, or does not read: no error can be sent.
            transport.abort()
        except BaseException:
            transport.abort()  # otherwise the reader would wait for the rest
            raise
        return response

    async def _copied(
        self, transport: asyncio.Transport, stretch: StoredStretch, descriptor: int
    ) -> None:
        # The event loop refuses to watch a descriptor that it uses itself, so this is a duplicate.
        socket = os.dup(transport.get_extra_info("socket").fileno())
        try:
            sent = 0
            while sent < stretch.size:
                if transport.is_closing():
                    raise ConnectionResetError
                taken = await self._logs.send(stretch, descriptor, sent, socket)
                sent += taken
                if not taken:
                    await _writable(socket)
        finally:
            os.close(socket)


async def _writable(socket: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(socket, _set, ready)
    try:
        await ready
    finally:
        loop.remove_writer(socket)


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
