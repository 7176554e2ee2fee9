"""What a connection carries out in one turn of the event loop: then others have theirs."""

TURN_COMMANDS_MAX = 256  # of one turn: 1 to 2 ms; a change of topology counts for several
TURN_SECONDS = 0.001  # of one turn: commands that took so long are the last of it
WEIGHT_OF_COMMAND = 2  # of the queues that a run of publishes reaches: some 4 us
COMMAND_READ_BITS = 12  # every 4 KiB that were read count as a command: 1 MiB is a turn, too


class CommandTurn:
    """The turn of one connection: it goes on through several reads, and ends when it is used up.

    Attributes:
        commands_left: how many may be carried out; with 0 or less, the turn is over.
    """

    __slots__ = ("commands_left",)

    def __init__(self) -> None:
        self.commands_left = TURN_COMMANDS_MAX

    def begin(self) -> None:
        """Others have had theirs."""
        self.commands_left = TURN_COMMANDS_MAX

    def received(self, nbytes: int) -> None:
        """So much was read."""
        self.commands_left -= nbytes >> COMMAND_READ_BITS

    def reached(self, weight: int) -> None:
        """A run of publishes went to several queues; see `Appending` for their weight."""
        self.commands_left -= weight // WEIGHT_OF_COMMAND

    def end(self) -> None:
        """What was done was long: what comes next is for another turn."""
        self.commands_left = 0
