"""The states of a connection."""

from enum import Enum, auto


class State(Enum):
    """Where a connection is in its life."""

    AWAIT_HEADER = auto()
    AWAIT_START_OK = auto()
    AUTHENTICATING = auto()
    AWAIT_TUNE_OK = auto()
    AWAIT_OPEN = auto()
    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


# Where a method out of turn gets no answer: the client does not speak the protocol.
HANDSHAKE = (
    State.AWAIT_START_OK,
    State.AUTHENTICATING,
    State.AWAIT_TUNE_OK,
    State.AWAIT_OPEN,
)
