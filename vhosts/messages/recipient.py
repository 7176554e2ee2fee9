"""What takes messages: a queue, or what holds them until they go on."""

from typing import Protocol

from routelog.log_backend import Durability, Records


class Recipient(Protocol):
    """A queue that messages come to, or what holds them until they go on."""

    @property
    def name(self) -> str:
        """What a route leads to it by."""

    @property
    def durability(self) -> Durability:
        """What a position of the journal must reach for it."""

    @property
    def deleted(self) -> bool:
        """It takes nothing any more."""

    @property
    def has_turn(self) -> bool:
        """It will give messages to consumers after this turn of the event loop."""

    def publish(self, records: Records, waited: bool) -> int:
        """Append records; see `Queue.publish`."""

    def takes(self, count: int, size: int) -> bool:
        """Whether it refuses none of so many messages, of so many bytes of bodies, at once."""

    @property
    def may_refuse(self) -> bool:
        """What it takes now it may refuse or drop later: others have filled it, or sent the same."""

    def transaction_ended(self, *, failed: bool) -> None:
        """What a transaction appended may be handed out; or it is gone, and its offsets are settled."""
