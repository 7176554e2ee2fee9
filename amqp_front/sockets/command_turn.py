# cython: annotation_typing=False
"""What a connection carries out in one turn of the event loop: then others have theirs."""

from collections.abc import Callable

import cython

from routelog.amqp_front.sockets.rota import Rota
from routelog.broker import Cork
from routelog.log_backend import CLIENT_SECONDS, Clock

TURN_COMMANDS_MAX = 256  # of one turn: 1 to 2 ms; a change of topology counts for several
WEIGHT_OF_COMMAND = 2  # of the queues that a run of publishes reaches: some 4 us
COMMAND_READ_BITS = 12  # every 4 KiB that were read count as a command: 1 MiB is a turn, too
LATE_BYTES = 4_096  # of one read, when it is late: whoever has no more to say waits less
AGAIN_BYTES = 65_536  # of one that has waited: it says little again and again otherwise


# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_CLIENT_SECONDS = cython.declare(cython.double, CLIENT_SECONDS)
_TURN_COMMANDS_MAX = cython.declare(cython.longlong, TURN_COMMANDS_MAX)
_WEIGHT_OF_COMMAND = cython.declare(cython.longlong, WEIGHT_OF_COMMAND)
_COMMAND_READ_BITS = cython.declare(cython.longlong, COMMAND_READ_BITS)
_LATE_BYTES = cython.declare(cython.longlong, LATE_BYTES)
_AGAIN_BYTES = cython.declare(cython.longlong, AGAIN_BYTES)


@cython.final
@cython.cclass
class CommandTurn:
    """The turn of one connection: it goes on through several reads, and ends when it is used up.

    Attributes:
        commands_left: how many may be carried out; with 0 or less, the turn is over.
        until: they have taken long enough, seconds of the monotonic clock.
    """

    __slots__ = (
        "_has_waited",
        "_is_late",
        "_monotonic",
        "_number",
        "_rota",
        "_said_all",
        "commands_left",
        "until",
    )

    def __init__(self, rota: Rota, clock: Clock) -> None:
        self._rota = rota
        self._monotonic = clock.monotonic
        self.until = 0.0
        self._number = 0  # of the rota's turns
        self._has_waited = False  # for the turn of that number
        self._is_late = False  # the last read came late
        self._said_all = False  # in it
        self.commands_left = _TURN_COMMANDS_MAX

    @cython.ccall
    def begin(self) -> None:
        """It has waited, and others have had theirs."""
        self.commands_left = _TURN_COMMANDS_MAX
        self._number = self._rota.number
        self._has_waited = True
        self._is_late = False

    @cython.locals(rota=Rota)
    def room(self, room: memoryview) -> memoryview:
        """Return how much of the receive buffer may be read into."""
        if self._number != self._rota.number:
            self.begin()  # others have had theirs, and it had not used up its own
            self._has_waited = False
        rota = self._rota
        self._is_late = rota.is_late(self._has_waited) or (
            rota.some_are_late() and not self._has_waited
        )
        if not self._is_late:
            return room
        return room[:_AGAIN_BYTES] if self._has_waited else room[:_LATE_BYTES]

    @cython.locals(nbytes=cython.longlong, rota=Rota)
    def received(self, nbytes: int) -> bool:
        """So much was read into the room; returns whether it came too late for this turn of the loop."""
        self.commands_left -= nbytes >> _COMMAND_READ_BITS
        if self._is_late:
            self._said_all = nbytes < _LATE_BYTES
            rota = self._rota
            self._is_late = not self._said_all or rota.some_are_late() or rota.is_late(True)
        else:
            self._rota.heard(nbytes)
        return self._is_late

    def carry_out(self, cork: Cork, commands: Callable[[], None]) -> None:
        """Carry out what was received, and send what is answered."""
        self.until = self._monotonic() + _CLIENT_SECONDS
        cork.run(commands)

    @cython.locals(weight=cython.longlong)
    def reached(self, weight: int) -> None:
        """A run of publishes went to several queues; see `Appending` for their weight."""
        self.commands_left -= weight // _WEIGHT_OF_COMMAND
        self._rota.reached(weight)

    def end(self) -> None:
        """What was done was long: what comes next is for another turn."""
        self.commands_left = 0

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call a function when it has another turn, which begins then."""

        def begin() -> None:
            self.begin()
            go_on()

        if self._is_late and (self._said_all or self._has_waited):
            self._rota.came_late(begin, self._has_waited)
        else:
            self._rota.wait(begin)
