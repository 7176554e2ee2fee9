"""A binding: from an exchange, under a key and arguments, to a queue or an exchange."""

from collections.abc import Hashable, Mapping
from typing import Literal

import msgspec

from exchanges.exchange import NO_ARGUMENTS
from exchanges.field_values import comparable_table

DestinationKind = Literal["queue", "exchange"]


# gc=False: a binding holds strings and one tree of arguments, so it can be in no cycle, and
# 100,000 of them cost the collector nothing.
class Binding(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One binding. Its identity is everything but `durable`, which follows from its ends.

    `arguments` must not be changed.
    """

    source: str
    destination: str
    destination_kind: DestinationKind
    routing_key: str
    arguments: Mapping[str, object] = NO_ARGUMENTS
    durable: bool = False

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Binding) and self._identity() == other._identity()
        )

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Hashable, ...]:
        arguments = comparable_table(self.arguments) if self.arguments else None
        return (
            self.source,
            self.destination,
            self.destination_kind,
            self.routing_key,
            arguments,
        )
