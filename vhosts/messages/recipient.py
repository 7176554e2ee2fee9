"""The recipient of routed messages: a queue, or the held messages of a delayed exchange."""

from collections.abc import Callable
from typing import Protocol

from routelog.log_backend import Durability, Progress, Records


class Recipient(Protocol):
    """A queue, or the held messages of a delayed message exchange.

    Attributes:
        on_caught_up: called once, when consumers have caught up.
    """

    on_caught_up: Callable[[], None] | None

    @property
    def progress(self) -> Progress:
        """Of the journal, or session, that the positions of `publish` are of."""

    @property
    def name(self) -> str:
        """The name that stands for the recipient in routes."""

    @property
    def durability(self) -> Durability:
        """What a confirm of a persistent message waits for."""

    @property
    def deleted(self) -> bool:
        """The recipient takes no more messages."""

    @property
    def is_behind(self) -> bool:
        """Consumers nearly keep up, and there is a backlog: publishers are to wait."""

    def publish(self, records: Records, waited: bool) -> int:
        """Append records; see `Queue.publish`."""

    def takes(self, count: int, size: int) -> bool:
        """Whether all of so many messages, of so many bytes of bodies, would be accepted at once."""

    @property
    def may_refuse(self) -> bool:
        """Whether messages that `takes` accepts may be refused later: by a full queue, or as duplicates."""

    def transaction_ended(self, *, failed: bool) -> None:
        """A transaction ended: its messages may be handed out, or were rolled back and settled."""
