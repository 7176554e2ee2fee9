"""A channel that publishes to a real vhost, and what became of that."""

from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any, cast

from pamqp import commands
from pamqp import frame as pamqp_frame
from queue_samples import Node, bodies

from amqp_front.command import PublishRun
from amqp_front.confirm_board import ConfirmBoard
from amqp_front.direct_reply import DirectReplies
from amqp_front.frame_cutter import FrameCutter
from log_backend import SystemClock
from vhosts import FULL_PERMISSION, PermissionBook, PermissionCache, VirtualHost


class Channel:
    """What a publisher needs of its channel."""

    number = 1
    user = "guest"
    impersonates = False
    body_frame_max = 4088
    reply_address: str | None = None

    def __init__(self, vhost: VirtualHost, board: ConfirmBoard) -> None:
        self.vhost = vhost
        self.services: Any = SimpleNamespace(
            confirms=board, clock=SystemClock(), replies=DirectReplies()
        )
        self.book = PermissionBook()
        self.book.put(self.user, vhost.name, FULL_PERMISSION)
        self.permissions = PermissionCache(self.book, self.user, vhost.name)
        self.written = b""
        self.queues = 0  # that were reached
        self.arrived: Awaitable[None] | None = None

    def reached(self, queues: int, arrived: Awaitable[None] | None) -> None:
        """See `PublishingChannel`."""
        self.queues += queues
        self.arrived = arrived

    def write(self, frames: bytes) -> None:
        """See `PublishingChannel`."""
        self.written += frames

    def sent(self) -> list[Any]:
        """The method frames written, then forgotten."""
        methods = []
        while self.written:
            used, _, frame = pamqp_frame.unmarshal(self.written)
            if isinstance(frame, commands.Basic.Return | commands.Basic.Ack | commands.Basic.Nack):
                methods.append(frame)
            self.written = self.written[used:]
        return methods


def runs(stream: bytes) -> list[PublishRun]:
    """What a cutter makes of a read."""
    cutter = FrameCutter(131_072)
    cutter.receive_into(b"")[: len(stream)] = stream
    cutter.received(len(stream), 131_072)
    found = list(iter(lambda: cutter.next(False), None))
    assert all(isinstance(run, PublishRun) for run in found)
    return cast(list[PublishRun], found)


def held(node: Node, queue: str) -> list[str]:
    """What a queue holds, taken out."""
    taken = []
    while (delivery := node.vhost.queues[queue].get()) is not None:
        taken += bodies(delivery)
    return taken
