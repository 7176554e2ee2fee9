"""A reader of logs that notes how far it came, as one does that goes on there after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from crash.kills.confirmed_load import PREFETCH, Client
from crash.kills.frame_stream import Delivered
from crash.kills.load_queue import LoadQueue
from pamqp import commands, frame

from routelog.benchmarks.traffic.frames import CHANNEL, ack_frame


@dataclass
class ReadLog:
    """A queue's log as its reader knows it.

    Attributes:
        next_offset: behind the last message that was delivered.
        seen: sequence numbers of those that were.
    """

    queue: LoadQueue
    next_offset: int = 0
    seen: set[int] = field(default_factory=set)

    def delivered(self, event: Delivered) -> None:
        """Note a message."""
        assert event.offset >= self.next_offset, f"{event.offset} came once more"
        self.next_offset = event.offset + 1
        self.seen.add(self.queue.messages.read(event.body))


class LogReader(Client):
    """Reads logs from where their notes say, until the broker is killed."""

    def __init__(self, url: str, logs: Sequence[ReadLog]) -> None:
        super().__init__(url)
        self._logs = logs
        self.connection.call(commands.Basic.Qos(prefetch_count=PREFETCH), commands.Basic.QosOk)

    def work(self) -> None:
        """See `Client`."""
        for number, log in enumerate(self._logs):
            consume = commands.Basic.Consume(
                queue=log.queue.name,
                consumer_tag=str(number),
                nowait=True,
                arguments={"x-stream-offset": log.next_offset},
            )
            self.connection.send(frame.marshal(consume, CHANNEL))
        while True:
            acks = b""
            for event in self._stream.feed(self.connection.receive()):
                assert isinstance(event, Delivered)
                self._logs[int(event.consumer_tag)].delivered(event)
                acks += ack_frame(event.tag, multiple=False)
            if acks:
                self.connection.send(acks)
