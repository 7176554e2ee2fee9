"""The random exchanges: each message goes to one destination by chance; its routing key has no meaning.

All queues are local to this node, so `x-local-random` differs only in what may be bound.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.errors import InvalidBindingArguments
from routelog.exchanges.indexes.binding_index import Message

# A random number from 0 to below its argument.
RandomBelow = Callable[[int], int]


class RandomIndex:
    """Destinations, each once however often it is bound.

    Args:
        random_below: the source of random numbers.
        local: as RabbitMQ's local random exchange: queues only, with an empty binding key.
    """

    key_decides = False
    reads_headers = False
    remembers = False

    def __init__(self, random_below: RandomBelow, *, local: bool = False) -> None:
        self._random_below = random_below
        self._local = local
        self._counts: Counter[tuple[str, str]] = Counter()
        self._places: dict[tuple[str, str], int] = {}
        self._bindings: list[Binding] = []  # one of each destination

    def check(self, binding: Binding) -> None:
        """Refuse what a local exchange cannot choose from."""
        if not self._local:
            return
        if binding.routing_key:
            reason = f"Non empty binding '{binding.routing_key}' key not permitted"
            raise InvalidBindingArguments("routing_key", reason)
        if binding.destination_kind != "queue":
            raise InvalidBindingArguments(
                "destination", "only queues can be bound to x-local-random"
            )

    def add(self, binding: Binding) -> None:
        """Add a binding; its destination may be there already."""
        name = (binding.destination_kind, binding.destination)
        self._counts[name] += 1
        if name not in self._places:
            self._places[name] = len(self._bindings)
            self._bindings.append(binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding; its destination goes with the last one."""
        name = (binding.destination_kind, binding.destination)
        self._counts[name] -= 1
        if self._counts[name]:
            return
        del self._counts[name]
        place, last = self._places.pop(name), self._bindings.pop()
        if place < len(self._bindings):
            self._bindings[place] = last
            self._places[(last.destination_kind, last.destination)] = place

    def match(self, routing_key: bytes, message: Message) -> Iterable[Binding]:
        """Return a binding to one of the destinations."""
        count = len(self._bindings)
        return (self._bindings[self._random_below(count)],) if count else ()
