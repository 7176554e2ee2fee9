"""Storms of streams: one reader that looks at everything, or many that are far behind."""

import select
import time
from collections.abc import Callable

from pamqp import body, commands, frame
from pamqp.common import FieldTable

from routelog.benchmarks.storms.storms import PUBLISHES_AT_ONCE
from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.frames import CHANNEL, header_frame

MESSAGES = 10_000_000
BODY_BYTES = 100
READERS = 50
READING_SECONDS = 10.0
PREFETCH = 100
STREAM = "fairness.stream"
FILTER_VALUE = "x-stream-filter-value"
HEADERS: FieldTable = {"region": "north", "kind": "order", FILTER_VALUE: "north"}
LAST = "last"  # the last message, which ends a look at all of them, is of this region
RECEIVED_BYTES_MAX = 1 << 20


class StreamStorms:
    """Storms over one stream of level `disk`; each fills it if it is not there."""

    def __init__(self, url: str, scale: float) -> None:
        self._url = url
        self._messages = max(1, int(MESSAGES * scale))
        self._readers = max(1, int(READERS * scale))
        self._seconds = READING_SECONDS * min(1.0, 10 * scale)
        self._is_filled = False
        self.all: dict[str, Callable[[], None]] = {
            f"fill in {self._messages:,} messages of a stream": self._fill,
            f"an x-filter looks at {self._messages:,} messages of a stream": self._filter,
            f"an x-stream-filter looks at {self._messages:,} messages of a stream": self._text_filter,
            f"{self._readers} readers begin at the first message of a stream": self._read,
        }

    def _fill(self) -> None:
        if self._is_filled:
            return
        self._is_filled = True
        client = Connection(self._url)
        kind: FieldTable = {"x-queue-type": "stream"}
        declare = commands.Queue.Declare(queue=STREAM, durable=True, arguments=kind)
        client.call(declare, commands.Queue.DeclareOk)
        message = _message(HEADERS, "some")
        for at in range(1, self._messages, PUBLISHES_AT_ONCE):
            client.send(message * min(PUBLISHES_AT_ONCE, self._messages - at))
        client.send(_message({"region": LAST, FILTER_VALUE: LAST}, LAST))
        client.close()
        time.sleep(self._seconds / 5)  # what is still to be flushed belongs to this

    def _filter(self) -> None:
        self._look({"x-filter": f"region = '{LAST}'"})

    def _text_filter(self) -> None:
        self._look({"x-stream-filter": LAST})

    def _look(self, filters: FieldTable) -> None:
        # Until the one message that matches, the last, has come.
        reader = self._reader(filters)
        rest = b""
        while LAST.encode() * 2 not in rest:
            select.select([reader.socket], [], [])
            rest = rest[-len(LAST) * 2 :] + reader.receive()
        reader.close()

    def _read(self) -> None:
        crowd = {each.socket: each for each in (self._reader({}) for _ in range(self._readers))}
        end = time.monotonic() + self._seconds
        while (left := end - time.monotonic()) > 0:
            for ready in select.select([*crowd], [], [], left)[0]:
                ready.recv(RECEIVED_BYTES_MAX)
                crowd[ready].send(_ACK_ALL)
        for each in crowd:
            each.close()

    def _reader(self, filters: FieldTable) -> Connection:
        self._fill()
        reader = Connection(self._url)
        reader.call(commands.Basic.Qos(prefetch_count=PREFETCH), commands.Basic.QosOk)
        arguments: FieldTable = {"x-stream-offset": "first", **filters}
        consume = commands.Basic.Consume(queue=STREAM, arguments=arguments)
        reader.send(frame.marshal(consume, CHANNEL))
        return reader


_ACK_ALL = frame.marshal(commands.Basic.Ack(0, multiple=True), CHANNEL)


def _message(headers: FieldTable, text: str) -> bytes:
    content = (text * 2).encode().ljust(BODY_BYTES, b"m")
    properties = commands.Basic.Properties(delivery_mode=2, headers=headers)
    publish = frame.marshal(commands.Basic.Publish(routing_key=STREAM), CHANNEL)
    text_frame = frame.marshal(body.ContentBody(content), CHANNEL)
    return publish + header_frame(properties, BODY_BYTES) + text_frame
