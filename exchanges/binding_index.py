"""What an exchange type is: an index over the bindings of one exchange."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from exchanges.binding import Binding


class BindingIndex(Protocol):
    """The bindings that leave from one exchange, ordered for finding those that match a message."""

    @property
    def key_decides(self) -> bool:
        """Whether equal routing keys match equal bindings for as long as no binding changes.

        Only then may routes be cached. It may change only when bindings do.
        """

    @property
    def reads_headers(self) -> bool:
        """Whether `match` looks at headers. It may change only when bindings do."""

    def check(self, binding: Binding) -> None:
        """Refuse a binding that this type cannot understand.

        Raises:
            InvalidBindingArguments: the arguments make no sense here.
        """

    def add(self, binding: Binding) -> None:
        """Add a checked binding that is not here yet."""

    def remove(self, binding: Binding) -> None:
        """Remove a binding that is here."""

    def match(self, routing_key: bytes, headers: Mapping[str, object]) -> Iterable[Binding]:
        """Return the bindings that match a message, in any order; one may come twice."""
