# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Where the reads of a connection go: the receive buffer that all share, or a message under construction."""

import cython

from routelog.amqp_front.connections.body_receiver import BodyReceiver, body_receiver
from routelog.amqp_front.connections.channel_table import ChannelTable
from routelog.amqp_front.connections.handshake import FRAME_BEFORE_TUNE
from routelog.amqp_front.node.services import Services
from routelog.amqp_front.wire.command import RUN_RECORDS_MAX
from routelog.vhosts.counters.counters import TrafficCounters


@cython.final
@cython.cclass
class ReceiveBuffer:
    """What a connection has received and not carried out.

    Attributes:
        frame_limit: largest payload of a frame.
        run_limit: most messages of a run: what is not carried out in one turn is cut again in the next.
    """

    __slots__ = (
        "_body",
        "_channels",
        "_services",
        "_traffic",
        "_unread",
        "frame_limit",
        "run_limit",
    )

    def __init__(
        self, services: Services, channels: ChannelTable, traffic: TrafficCounters
    ) -> None:
        self._traffic = traffic
        self._services = services
        self._channels = channels
        self._unread = b""
        self._body: BodyReceiver | None = None
        self.frame_limit = FRAME_BEFORE_TUNE
        self.run_limit = RUN_RECORDS_MAX

    def room(self) -> memoryview:
        """Where the next read goes."""
        if self._body is not None:
            return self._body.room()
        return self._services.cutter.receive_into(self._unread)

    @cython.locals(size=cython.Py_ssize_t)
    def received(self, size: int) -> bool:
        """A read has brought so many bytes; returns whether there may be commands to carry out."""
        self._traffic.received(size)
        if self._body is None:
            self._services.cutter.received(size, self.frame_limit, self.run_limit)
            return True
        if not self._body.received(size):
            return False
        self._body = None
        return True

    def again(self) -> None:
        """Put what is unread into the receive buffer, which others have used meanwhile."""
        self._services.cutter.receive_into(self._unread)
        self._services.cutter.received(0, self.frame_limit, self.run_limit)

    def keep(self) -> None:
        """Take what no command has taken out of the receive buffer, which others will use."""
        self._unread = self._services.cutter.unread()
        if self._body is None and self._channels.assembling:
            self._body = body_receiver(
                self._unread, self._channels, self._services, self.frame_limit
            )
            if self._body is not None:
                self._unread = b""

    def clear(self) -> None:
        """Nothing will be carried out any more."""
        self._unread = b""
        self._body = None
