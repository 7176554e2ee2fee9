"""What a connection carries out in one turn of the event loop: then others have theirs."""

from collections.abc import Callable

from amqp_front.cork import Cork
from amqp_front.rota import Rota
from log_backend import Clock

TURN_COMMANDS_MAX = 256  # of one turn: 1 to 2 ms; a change of topology counts for several
TURN_SECONDS = 0.001  # of one turn: commands that took so long are the last of it
WEIGHT_OF_COMMAND = 2  # of the queues that a run of publishes reaches: some 4 us
COMMAND_READ_BITS = 12  # every 4 KiB that were read count as a command: 1 MiB is a turn, too
MUCH_BYTES = 16_384  # of one read: whoever has more to say when it is late goes on in another turn


class CommandTurn:
    """The turn of one connection: it goes on through several reads, and ends when it is used up.

    Attributes:
        commands_left: how many may be carried out; with 0 or less, the turn is over.
        until: they have taken long enough, seconds of the monotonic clock.
    """

    __slots__ = (
        "_has_waited",
        "_monotonic",
        "_number",
        "_rota",
        "_says_little",
        "_was_late",
        "commands_left",
        "until",
    )

    def __init__(self, rota: Rota, clock: Clock) -> None:
        self._rota = rota
        self._monotonic = clock.monotonic
        self.until = 0.0
        self._number = 0  # of the rota's turns
        self._has_waited = False  # for the turn of that number
        self._was_late = False
        self._says_little = True  # the last read was a short one
        self.commands_left = TURN_COMMANDS_MAX

    def begin(self) -> None:
        """It has waited, and others have had theirs."""
        self.commands_left = TURN_COMMANDS_MAX
        self._number = self._rota.number
        self._has_waited = True

    def room(self, room: memoryview) -> memoryview:
        """Return how much of the receive buffer may be read into."""
        if self._number != self._rota.number:
            self.begin()  # others have had theirs, and it had not used up its own
            self._has_waited = False
        self._was_late = self._rota.is_late and not self._has_waited
        return room[:MUCH_BYTES] if self._was_late else room

    def received(self, nbytes: int) -> None:
        """So much was read into the room."""
        self.commands_left -= nbytes >> COMMAND_READ_BITS
        self._says_little = nbytes < MUCH_BYTES
        if not self._says_little:
            if self._was_late:
                self.end()
            else:
                self._rota.heard_much()

    def carry_out(self, cork: Cork, commands: Callable[[], None]) -> None:
        """Carry out what was received, and send what is answered."""
        begin = self._monotonic()
        self.until = begin + TURN_SECONDS
        cork.run(commands)
        if self._says_little and self._rota.is_under_way and not self._has_waited:
            self._rota.others_took(self._monotonic() - begin)

    def reached(self, weight: int) -> None:
        """A run of publishes went to several queues; see `Appending` for their weight."""
        self.commands_left -= weight // WEIGHT_OF_COMMAND

    def end(self) -> None:
        """What was done was long: what comes next is for another turn."""
        self.commands_left = 0
