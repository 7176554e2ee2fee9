"""What is too much to be sent in one turn of the event loop: it goes piece by piece.

The system takes as much in one call as its buffers have room for, and on one machine the other end makes room
meanwhile: 16 MiB held the loop for 10 ms.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from routelog.log_backend import Lane, Octets, Scheduler

TURN_BYTES_MAX = 1_114_112  # handed over in one turn, less than 1 ms: 1 MiB with its frames
OUTBOX_BYTES_HIGH = 1_048_576  # unsent: no more deliveries; about 8 ms at 1 Gbit/s


class LongWrite:
    """Parts that wait to be handed to a transport, and those written meanwhile behind them.

    Attributes:
        bytes: not handed over yet.

    Args:
        on_end: called when the transport has been given all bytes.
    """

    __slots__ = ("_on_end", "_parts", "_scheduler", "_transport", "bytes")

    def __init__(
        self, transport: asyncio.Transport, scheduler: Scheduler, on_end: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._scheduler = scheduler
        self._on_end = on_end
        self._parts: deque[Octets] = deque()
        self.bytes = 0

    def add(self, parts: Sequence[Octets]) -> None:
        """Send these behind everything else."""
        self._parts.extend(parts)
        self.bytes += sum(map(len, parts))

    def go_on(self) -> None:
        """Hand over the next piece: the transport has room."""
        if not self.bytes or self._transport.is_closing():
            return  # everything was handed over
        self._transport.writelines(self._piece())
        if not self.bytes:
            self._on_end()
        elif self._transport.get_write_buffer_size() <= OUTBOX_BYTES_HIGH:
            self._scheduler.call(Lane.JOBS, self.go_on)
        # else the transport has paused its protocol, and will say when it may go on

    def hand_over(self) -> None:
        """Hand over everything at once."""
        if not self._transport.is_closing():
            self._transport.writelines(self._parts)
        self._parts.clear()
        self.bytes = 0

    def _piece(self) -> list[Octets]:
        piece: list[Octets] = []
        room = TURN_BYTES_MAX
        while self._parts and room:
            part = self._parts.popleft()
            if len(part) > room:
                self._parts.appendleft(memoryview(part)[room:])
                part = memoryview(part)[:room]
            piece.append(part)
            room -= len(part)
        self.bytes -= TURN_BYTES_MAX - room
        return piece
