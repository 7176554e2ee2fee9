"""Who acts: whose command is carried out, for the log of what has changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Actor:
    """A user at one of the doors.

    Attributes:
        user: the name; empty where none is needed, as for the definitions of the start.
        address: where he comes from.
        door: what he speaks, such as HTTP.
        importing: what changes is part of an import, which is told as a whole.
        told: something that he did is in the log.
    """

    user: str
    address: str
    door: str
    importing: bool = False
    told: bool = False

    @contextmanager
    def imports(self) -> Iterator[None]:
        """What changes meanwhile is part of an import."""
        self.importing = True
        try:
            yield
        finally:
            self.importing = False


EXPIRY = Actor("", "", "expiry")  # nobody has used it for as long as x-expires says

_ACTOR: ContextVar[Actor | None] = ContextVar("actor", default=None)


def current_actor() -> Actor | None:
    """Whose command is carried out; None: the broker does it by itself."""
    return _ACTOR.get()


@contextmanager
def acts(actor: Actor | None) -> Iterator[None]:
    """What is done meanwhile, also by tasks that begin meanwhile, is done by this one."""
    before = _ACTOR.set(actor)
    try:
        yield
    finally:
        _ACTOR.reset(before)
