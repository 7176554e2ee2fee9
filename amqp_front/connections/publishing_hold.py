"""Whether one connection waits at a gate for publishers, and what its client was told of it.

    passing --publishes at a closed gate--> held --gate opens--> passing
    held: connection.blocked, when the gate tells;  let go: connection.unblocked, when it was told

Source: RabbitMQ's extension of AMQP 0-9-1, https://www.rabbitmq.com/docs/connection-blocked
"""

from collections.abc import Set
from typing import Any, Protocol

from pamqp import commands

from routelog.broker import Gate, PublishPace


class HoldOwner(Protocol):
    """The connection."""

    def send_method(self, kind: type[Any], **values: Any) -> None:
        """Send a method of class connection."""

    def hold_changed(self) -> None:
        """`PublishingHold.active` is another."""


class PublishingHold:
    """The place of a connection at a gate.

    Attributes:
        active: the connection waits: nothing is read from it.
        tells: its client announced that it understands connection.blocked.
    """

    __slots__ = ("_gate", "_owner", "_told", "active", "tells")

    def __init__(self, owner: HoldOwner) -> None:
        self._gate: Gate | PublishPace | None = None
        self._owner = owner
        self._told = False
        self.active = False
        self.tells = False

    @property
    def reasons(self) -> Set[str]:
        """Why the connection waits, if it is for longer than consumers take to catch up."""
        if not self.active or self._gate is None:
            return frozenset()
        return self._gate.reasons - {"consumers"}

    def begin(self, gate: Gate | PublishPace) -> None:
        """The connection publishes, and a gate for it is closed."""
        if not self.active:
            self.active = True
            self._gate = gate
            self._owner.hold_changed()
            gate.hold(self)

    def tell_blocked(self, reason: str) -> None:
        """See `Held`."""
        if self.tells and not self._told:
            self._told = True
            self._owner.send_method(commands.Connection.Blocked, reason=reason)

    def let_go(self) -> None:
        """See `Held`."""
        told, self._told = self._told, False
        if told:
            self._owner.send_method(commands.Connection.Unblocked)
        self.active = False
        self._owner.hold_changed()

    def leave(self) -> None:
        """The connection ends: it waits for nothing, and is told nothing more."""
        if self.active and self._gate is not None:
            self._gate.forget(self)
            self._told = self.active = False
            self._owner.hold_changed()

    def end(self) -> None:
        """The connection is gone: nothing is left for the garbage collector."""
        self.leave()
        del self._owner
