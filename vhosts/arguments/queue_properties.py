"""The declaration of a queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class QueueProperties:
    """What a declaration fixes for the queue's life. `arguments` must not be changed.

    Attributes:
        user: who declared it; empty: the broker.
    """

    name: str
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)
    user: str = ""

    @property
    def type(self) -> str:
        """Classic, quorum or stream."""
        return str(self.arguments.get("x-queue-type", "classic"))

    @property
    def is_stored(self) -> bool:
        """Whether the queue survives a restart; an exclusive queue ends with its connection."""
        return self.durable and not self.exclusive
