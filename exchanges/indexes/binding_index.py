"""An exchange type is an index over the bindings of one exchange, and this is the message that it matches."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import Match


def _no_value(name: str) -> None:
    return None


class Message(NamedTuple):
    """A message as exchanges see it.

    Attributes:
        headers: its header table, which must not be changed.
        value: returns the octets of another property by its name, such as `message_id`; None if it is missing.
    """

    headers: Mapping[str, object]
    value: Callable[[str], bytes | None] = _no_value


BARE_MESSAGE = Message({})


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
