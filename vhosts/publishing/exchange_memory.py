"""What the memory of an exchange is, whatever it remembers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from routelog.exchanges import Message
from routelog.log_backend import Receipt, Records
from routelog.vhosts.publishing.exchange_log import ExchangeLog


class Note(NamedTuple):
    """What is to be remembered of a message once it is stored.

    Attributes:
        key: what makes it the same as another message.
        expires: when it stops counting, microseconds since 1970; 0: never.
    """

    key: bytes
    expires: int = 0


class ExchangeMemory(Protocol):
    """The memory of one exchange.

    Attributes:
        is_filter: what it knows is not let through again.
        log: where it is kept over restarts; None: nowhere.
        needed: covered when all messages that it knows are as safe as their queues promise.
    """

    is_filter: bool
    log: ExchangeLog | None
    needed: Receipt

    def note(self, message: Message) -> Note | None:
        """What is to be remembered of a message that came by; None: nothing."""

    def knows(self, note: Note) -> bool:
        """Whether a message was here before."""

    def remember(
        self,
        notes: Sequence[tuple[int, Note]],
        records: Callable[[list[int]], Records],
        *,
        persistent: bool,
    ) -> Callable[[], None]:
        """Messages are being stored: what is kept over a restart is appended, in their block of the journal.

        Args:
            notes: of each, with its place among those of the publish.
            records: makes a batch of the messages at some places.
            persistent: they survive a restart, so what is remembered has to.

        Returns:
            To be called in this turn, when all is appended: they are remembered.
        """

    async def load(self) -> None:
        """Take what earlier runs left."""

    def close(self) -> None:
        """The exchange is gone: forget all."""
