"""The actor: the user whose command is carried out, for the audit lines of the log."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Actor:
    """A user, with the protocol and the address he uses.

    Attributes:
        user: the name; empty when there is none, as for definitions loaded at the start.
        address: of the client.
        door: the protocol, such as HTTP.
        importing: changes are part of an import, which has one line in the log.
        told: a change of his is in the log.
    """

    user: str
    address: str
    door: str
    importing: bool = False
    told: bool = False

    @contextmanager
    def imports(self) -> Iterator[None]:
        """Treat changes in this context as parts of an import."""
        self.importing = True
        try:
            yield
        finally:
            self.importing = False


EXPIRY = Actor("", "", "expiry")  # queues deleted by x-expires

_ACTOR: ContextVar[Actor | None] = ContextVar("actor", default=None)


def current_actor() -> Actor | None:
    """The user whose command is carried out; None: the broker acts by itself."""
    return _ACTOR.get()


@contextmanager
def acts(actor: Actor | None) -> Iterator[None]:
    """Attribute all changes in this context, and in tasks started in it, to this actor."""
    before = _ACTOR.set(actor)
    try:
        yield
    finally:
        _ACTOR.reset(before)
