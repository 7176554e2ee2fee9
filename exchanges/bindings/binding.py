"""A binding: from an exchange, under a key and arguments, to a queue or an exchange."""

from collections.abc import Hashable, Mapping
from typing import Literal

import msgspec

from routelog.exchanges.bindings.exchange import NO_ARGUMENTS
from routelog.exchanges.bindings.field_values import comparable_table

DestinationKind = Literal["queue", "exchange"]


# gc=False: a binding holds strings and one tree of arguments, so it can be in no cycle, and
# 100,000 of them cost the collector nothing.
class Binding(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One binding. Its identity is everything but `durable`, which follows from its ends, and `user`.

    `arguments` must not be changed.

    Attributes:
        user: who made it; empty: the broker.
        arguments_hash: computed once, because thousands of arguments take milliseconds; 0: not yet.
    """

    source: str
    destination: str
    destination_kind: DestinationKind
    routing_key: str
    arguments: Mapping[str, object] = NO_ARGUMENTS
    durable: bool = False
    user: str = ""
    arguments_hash: int = 0

    def __post_init__(self) -> None:
        # Of a copy, or a decoded binding: its arguments may differ, and hashes differ between processes.
        if self.arguments_hash:
            msgspec.structs.force_setattr(self, "arguments_hash", 0)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Binding) and self._identity() == other._identity()
        )

    def __hash__(self) -> int:
        if self.arguments and not self.arguments_hash:
            hashed = hash(comparable_table(self.arguments))
            msgspec.structs.force_setattr(self, "arguments_hash", hashed or 1)
        return hash((*self._ends(), self.arguments_hash))

    def _identity(self) -> tuple[Hashable, ...]:
        return (*self._ends(), comparable_table(self.arguments) if self.arguments else None)

    def _ends(self) -> tuple[Hashable, ...]:
        return self.source, self.destination, self.destination_kind, self.routing_key
