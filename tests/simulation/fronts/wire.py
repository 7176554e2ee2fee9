"""Connections of a simulated network: each direction delays, stalls, and ends for itself, as TCP does."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from simulation.network import Network
from simulation.scheduler import Scheduler

CLIENTS = "clients"  # on the machines of the nodes that they are connected with
SYSTEM_BYTES = 8 * 1024  # that the systems of both ends keep: the rest is unsent
CHUNK_BYTES = 16 * 1024
RETRY_SECONDS = 0.05


class Host(Protocol):
    """What an end belongs to: a process of a node, or all clients."""

    name: str

    @property
    def is_there(self) -> bool:
        """It has not ended."""

    @property
    def says_so(self) -> bool:
        """Its machine answers for it, when it has ended."""

    @property
    def is_paused(self) -> bool:
        """It reads nothing for now."""

    def enter(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call something in its loop, now or when it goes on."""


@dataclass(frozen=True)
class Medium:
    """What wires lie in."""

    scheduler: Scheduler
    network: Network
    randomness: Random


class Way:
    """One direction.

    Attributes:
        stalled: nothing comes over.
        slowness: seconds that each piece takes longer.
    """

    def __init__(self, medium: Medium, source: "End", target: "End") -> None:
        self.source = source
        self.target = target
        self.stalled = False
        self.slowness = 0.0
        self.sent = bytearray()
        self._ending: Callable[[], None] | None = None  # what comes behind the bytes
        self._medium = medium
        self._is_due = False

    def push(self, octets: bytes) -> None:
        """Send something."""
        self.sent += octets
        self.go_on()

    def end(self, how: Callable[[], None], *, at_once: bool) -> None:
        """Nothing more comes."""
        if at_once:
            self.sent.clear()
        self._ending = how
        self.go_on()

    def go_on(self) -> None:
        """Carry over what is there, after a while."""
        if not self._is_due and (self.sent or self._ending):
            self._is_due = True
            self._medium.scheduler.after(self._delay(), self._carry)

    def _delay(self) -> float:
        medium, names = self._medium, (self.source.host.name, self.target.host.name)
        if CLIENTS in names:
            return medium.randomness.uniform(0.0001, 0.001)
        network = medium.network
        is_lost = network.drop and medium.randomness.random() < network.drop  # and sent again
        return network.delay() + self.slowness + (0.2 if is_lost else 0.0)

    @property
    def is_open(self) -> bool:
        """Whether what is sent arrives."""
        names = self.source.host.name, self.target.host.name
        return not self.stalled and self._medium.network.is_open(*names)

    def carry_now(self) -> None:
        """Its reader goes on, and looks here first."""
        while self.sent and self.is_open and self.target.reads and self.target.host.is_there:
            octets = bytes(self.sent)
            self.sent.clear()
            self.target.host.enter(self.target.take, octets)

    def _carry(self) -> None:
        self._is_due = False
        target = self.target
        if target.is_over or not (self.sent or self._ending):
            return
        if not target.host.is_there:
            return self._to_nobody()
        if not self.is_open or target.host.is_paused or not (target.reads or not self.sent):
            return self._again()
        if self.sent:
            size = min(len(self.sent), self._medium.randomness.choice((7, 300, CHUNK_BYTES)))
            if not self.slowness:
                size = max(size, min(len(self.sent), 1_500))
            taken = bytes(self.sent[:size])
            del self.sent[:size]
            target.host.enter(target.take, taken)
            if self.source.waits and self.source.host.is_there:
                self.source.host.enter(self.source.carried)
        elif self._ending is not None:
            ending, self._ending = self._ending, None
            target.host.enter(ending)
        self.go_on()

    def _again(self) -> None:
        self._is_due = True
        self._medium.scheduler.after(RETRY_SECONDS, self._carry)

    def _to_nobody(self) -> None:
        source = self.source
        if source.is_over or not source.host.is_there:
            return
        if self.target.host.says_so and self.is_open:
            source.host.enter(source.lose)
        else:
            self._again()


class End(asyncio.Transport):
    """One end of a wire."""

    way: Way

    def __init__(self, host: Host, port: int) -> None:
        super().__init__({"peername": ("127.0.0.1", port), "sockname": ("127.0.0.1", 5672)})
        self.host = host
        self.reads = True
        self.is_over = False
        self.back: Way  # what comes
        self._protocol: Any = asyncio.Protocol()
        self._is_closing = self._is_stalled = self._has_ended = False
        self._high, self._low = 64 * 1024, 16 * 1024

    # -- what comes

    def take(self, octets: bytes) -> None:
        """Bytes have come."""
        if self.is_over or self._is_closing:
            return
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(octets)
            return
        while octets and self.reads and not self.is_over:
            room = memoryview(protocol.get_buffer(len(octets)))
            if not room:
                raise RuntimeError("get_buffer() returned an empty buffer")  # as asyncio has it
            size = min(len(room), len(octets))
            room[:size] = octets[:size]
            octets = octets[size:]
            protocol.buffer_updated(size)
        if not self.is_over:
            self.back.sent[:0] = octets  # it does not read on for now

    def ended(self) -> None:
        """The other end sends nothing more."""
        if not self.is_over and not self._protocol.eof_received():
            self.close()

    def lose(self) -> None:
        """The connection is gone."""
        if not self.is_over:
            self.is_over = self._is_closing = True
            self.way.sent.clear()
            self._protocol.connection_lost(None)

    @property
    def waits(self) -> bool:
        """Whether it is to know that some of what was sent is over."""
        return self._is_stalled or self._is_closing

    def carried(self) -> None:
        """Some of what was sent is over."""
        if self._is_stalled and self.get_write_buffer_size() <= self._low:
            self._is_stalled = False
            if not self.is_over:
                self._protocol.resume_writing()
        if self._is_closing and not self.way.sent:
            self.lose()

    # -- asyncio.Transport

    def set_protocol(self, protocol: Any) -> None:
        """See `asyncio.Transport`."""
        self._protocol = protocol

    def get_protocol(self) -> Any:
        """See `asyncio.Transport`."""
        return self._protocol

    def write(self, data: Any) -> None:
        """See `asyncio.Transport`."""
        if self._is_closing or self._has_ended:
            return
        self.way.push(bytes(data))
        if not self._is_stalled and self.get_write_buffer_size() > self._high:
            self._is_stalled = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Sequence[Any]) -> None:  # type: ignore[override]
        """See `asyncio.Transport`."""
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See `asyncio.Transport`."""
        if high is not None:
            self._high, self._low = high, high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """See `asyncio.Transport`."""
        return max(0, len(self.way.sent) - SYSTEM_BYTES)

    def pause_reading(self) -> None:
        """See `asyncio.Transport`."""
        self.reads = False

    def resume_reading(self) -> None:
        """See `asyncio.Transport`."""
        self.reads = True
        self.back.go_on()

    def can_write_eof(self) -> bool:
        """See `asyncio.Transport`."""
        return True

    def write_eof(self) -> None:
        """See `asyncio.Transport`."""
        if not (self._has_ended or self._is_closing):
            self._has_ended = True
            self.way.end(self.way.target.ended, at_once=False)

    def close(self) -> None:
        """See `asyncio.Transport`."""
        if not self._is_closing:
            self._is_closing = True
            self.way.end(self.way.target.lose, at_once=False)
            if not self.way.sent:
                self._later(self.lose)

    def abort(self) -> None:
        """See `asyncio.Transport`."""
        if not self.is_over:
            self._is_closing = True
            self.way.end(self.way.target.lose, at_once=True)
            self._later(self.lose)

    def _later(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    def is_closing(self) -> bool:
        """See `asyncio.Transport`."""
        return self._is_closing


class Wire:
    """A connection between two ends."""

    def __init__(self, medium: Medium, near: Host, far: Host, port: int) -> None:
        self.near, self.far = End(near, port), End(far, port)
        self.out, self.back = Way(medium, self.near, self.far), Way(medium, self.far, self.near)
        self.near.way, self.near.back = self.out, self.back
        self.far.way, self.far.back = self.back, self.out
        self.is_session = False

    @property
    def ways(self) -> tuple[Way, Way]:
        """Both directions."""
        return self.out, self.back

    @property
    def is_over(self) -> bool:
        """Whether both ends know that it has ended, or have ended."""
        return all(end.is_over or not end.host.is_there for end in (self.near, self.far))

    def unsent_bytes(self, host: Host) -> int:
        """What a process has sent, and the system has not taken."""
        end = self.near if self.near.host is host else self.far
        return 0 if end.host is not host or end.is_over else end.get_write_buffer_size()

    def process_ended(self, host: Host) -> None:
        """A process has ended, and its machine says so."""
        for way in self.ways:
            is_told = host.says_so or way.target.host.name == CLIENTS
            if way.source.host is host and is_told and not way.target.is_over:
                way.end(way.target.lose, at_once=False)
