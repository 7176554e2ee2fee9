"""What an exchange type is: an index over the bindings of one exchange."""

from collections.abc import Iterable
from typing import Protocol

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import Match
from routelog.exchanges.bindings.message import Message


class BindingIndex(Protocol):
    """The bindings that leave from one exchange, indexed to find those that match a message."""

    @property
    def key_decides(self) -> bool:
        """Whether equal routing keys match equal bindings for as long as no binding changes.

        Only then may routes be cached. It may change only when bindings do.
        """

    @property
    def reads_headers(self) -> bool:
        """Whether `match` looks at the message. It may change only when bindings do."""

    @property
    def remembers(self) -> bool:
        """Whether the exchange keeps state of earlier messages: deduplication or recent history."""

    def check(self, binding: Binding) -> None:
        """Refuse a binding that this type cannot understand.

        Raises:
            InvalidBindingArguments: arguments or key are invalid for this type.
        """

    def add(self, binding: Binding) -> None:
        """Add a checked binding that the index does not have."""

    def remove(self, binding: Binding) -> None:
        """Remove a binding that the index has."""

    def match(self, routing_key: bytes, message: Message) -> Iterable[Match]:
        """Return the destinations of the bindings that match a message, in any order; one may come twice."""
