"""A receiver of OpenTelemetry's spans over HTTP, as a collector is one."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class SpanReceiver:
    """What has come.

    Attributes:
        url: what a sender is told.
        spans: all so far.
        services: who sent them.
    """

    url = ""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()

    async def take(self, request: web.Request) -> web.Response:
        """Spans come."""
        content = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
            said = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.services.add(said["service.name"])
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return web.Response(content_type="application/x-protobuf")


@contextmanager
def span_receiver() -> Iterator[SpanReceiver]:
    """A receiver, until the end, in a thread of its own."""
    receiver, loop, is_up = SpanReceiver(), asyncio.new_event_loop(), threading.Event()

    async def serve() -> web.AppRunner:
        application = web.Application()
        application.router.add_post("/v1/traces", receiver.take)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    def run() -> None:
        runner = loop.run_until_complete(serve())
        is_up.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    is_up.wait()
    try:
        yield receiver
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
