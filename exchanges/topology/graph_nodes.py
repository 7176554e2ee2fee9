"""The nodes of the graph of bindings: exchanges and queues."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.indexes.binding_index import BindingIndex


@dataclass(slots=True, eq=False)
class ExchangeNode:
    """An exchange, the bindings that leave from it and those that lead to it.

    Attributes:
        policy: the name of its policy.
        policy_alternate: the alternate exchange of its policy; its own argument comes first.
    """

    exchange: Exchange
    index: BindingIndex
    outgoing: dict[Binding, Binding] = field(default_factory=dict)
    incoming: dict[Binding, None] = field(default_factory=dict)
    next_exchanges: Counter[str] = field(default_factory=Counter)  # how many bindings lead to each
    policy: str | None = None
    policy_alternate: str | None = None

    @property
    def alternate(self) -> str | None:
        """The exchange that gets what this one routes nowhere."""
        return self.exchange.alternate or self.policy_alternate

    @property
    def durable(self) -> bool:
        """Whether the exchange outlives a restart."""
        return self.exchange.durable

    @property
    def is_bound(self) -> bool:
        """Whether there is any binding at either end."""
        return bool(self.outgoing or self.incoming)

    def bindings(self) -> Iterator[Binding]:
        """Return the bindings at both ends, each once."""
        others = (b for b in self.incoming if b.source != self.exchange.name)
        return chain(self.outgoing, others)

    def add(self, binding: Binding) -> None:
        """Add a binding that leaves from here."""
        self.outgoing[binding] = binding
        self.index.add(binding)
        if binding.destination_kind == "exchange":
            self.next_exchanges[binding.destination] += 1

    def remove(self, binding: Binding) -> None:
        """Remove a binding that leaves from here."""
        del self.outgoing[binding]
        self.index.remove(binding)
        if binding.destination_kind == "exchange":
            self._release(binding.destination)

    def _release(self, exchange: str) -> None:
        self.next_exchanges[exchange] -= 1
        if not self.next_exchanges[exchange]:
            del self.next_exchanges[exchange]


@dataclass(slots=True, eq=False)
class QueueNode:
    """A queue and the bindings that lead to it."""

    durable: bool
    incoming: dict[Binding, None] = field(default_factory=dict)

    @property
    def is_bound(self) -> bool:
        """Whether any binding leads here."""
        return bool(self.incoming)

    def bindings(self) -> Iterator[Binding]:
        """Return the bindings that lead here."""
        return iter(self.incoming)
