"""The event loop, as all vhosts of a node share it."""

from routelog.vhosts.timer import CallLater, CallSoon
from routelog.vhosts.turns.backlog_turns import BacklogTurns, TurnClock
from routelog.vhosts.turns.dispatch_turns import DispatchTurns


class NodeLoop:
    """When what vhosts do has its turn: however many there are, their backlogs share one of the loop's.

    Attributes:
        call_soon: runs a function after this turn of the event loop.
        call_later: runs a function after some seconds.
        dispatch_turns: of all queues that deliver.
        letter_turns: of all queues with dead letters.
    """

    def __init__(self, call_soon: CallSoon, call_later: CallLater, clock: TurnClock) -> None:
        self.call_soon = call_soon
        self.call_later = call_later
        self.dispatch_turns = DispatchTurns(call_soon, clock)
        self.letter_turns = BacklogTurns(call_soon, clock)
