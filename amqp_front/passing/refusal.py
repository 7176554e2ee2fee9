"""What a client of AMQP is told by a node that passes it on, or has no leader for it: bytes in, bytes out."""

from functools import partial

from pamqp import commands

from routelog.amqp_front.connections.handshake import (
    ACCEPTED_HEADERS,
    FRAME_BEFORE_TUNE,
    PROTOCOL_HEADER,
    start_frame,
)
from routelog.amqp_front.wire.errors import CONNECTION_FORCED, reply_text
from routelog.amqp_front.wire.frame_walk import FrameWalk
from routelog.amqp_front.wire.methods import encode_method
from routelog.broker import PassedProtocol

CLOSE_OK = encode_method(0, commands.Connection.CloseOk)
_FRAME_HEAD, _FRAME_END = 7, 1  # bytes: type, channel, length; the end mark
_METHOD_FRAME = 1
_CONNECTION = 10  # the class
_START_OK, _TUNE_OK, _OPEN, _CLOSE_OK = 11, 31, 40, 51  # methods of it


class AmqpRefusal:
    """Opens a connection as far as a client expects to be refused, and closes it: 320, with a text.

    Clients take connection.close for the answer to connection.open, as where a vhost is missing. Whom a login
    is of is not looked at: nothing is told that depends on it.
    """

    def __init__(self, cluster_name: str, reason: str) -> None:
        self.is_over = False
        self._cluster_name = cluster_name
        self._reason = reason
        self._received = bytearray()
        self._has_header = False

    def take(self, data: bytes) -> bytes:
        """See `Refusal`."""
        self._received += data
        answers = bytearray()
        if not self._has_header:
            if len(self._received) < len(PROTOCOL_HEADER):
                return b""
            header = bytes(self._received[: len(PROTOCOL_HEADER)])
            del self._received[: len(PROTOCOL_HEADER)]
            self._has_header = True
            if header not in ACCEPTED_HEADERS:
                self.is_over = True
                return PROTOCOL_HEADER
            answers += start_frame(self._cluster_name, ("PLAIN", "AMQPLAIN", "EXTERNAL"))
        while not self.is_over and (method := self._next_method()) is not None:
            answers += self._answer(method)
        return bytes(answers)

    def _next_method(self) -> tuple[int, int] | None:
        """Class and number of the next method."""
        received = self._received
        if len(received) < _FRAME_HEAD:
            return None
        size = int.from_bytes(received[3:_FRAME_HEAD])
        if size > FRAME_BEFORE_TUNE:
            self.is_over = True
            return None
        end = _FRAME_HEAD + size + _FRAME_END
        if len(received) < end:
            return None
        payload, kind = bytes(received[_FRAME_HEAD : end - _FRAME_END]), received[0]
        del received[:end]
        if kind != _METHOD_FRAME or size < 4:
            return 0, 0  # a heartbeat
        return int.from_bytes(payload[:2]), int.from_bytes(payload[2:4])

    def _answer(self, method: tuple[int, int]) -> bytes:
        if method == (_CONNECTION, _START_OK):
            return encode_method(
                0, commands.Connection.Tune, channel_max=2_047, frame_max=131_072, heartbeat=0
            )
        if method == (_CONNECTION, _OPEN):
            return goodbye(self._reason)
        self.is_over = method not in ((0, 0), (_CONNECTION, _TUNE_OK))
        return b""


def goodbye(reason: str) -> bytes:
    """connection.close with 320."""
    return encode_method(
        0,
        commands.Connection.Close,
        reply_code=CONNECTION_FORCED,
        reply_text=reply_text(CONNECTION_FORCED, reason),
        class_id=0,
        method_id=0,
    )


class AmqpFarewell(FrameWalk):
    """See `Farewell`."""

    __slots__ = ()

    def goodbye(self, reason: str) -> bytes:
        """See `Farewell`."""
        return goodbye(reason)

    def is_answer(self, data: bytes) -> bool:
        """See `Farewell`."""
        return data.endswith(CLOSE_OK)


def passed_amqp(cluster_name: str) -> PassedProtocol:
    """AMQP for a node that passes clients on; they are told the cluster's name."""
    return PassedProtocol(partial(AmqpRefusal, cluster_name), AmqpFarewell)
