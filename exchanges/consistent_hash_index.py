"""The consistent hash exchange: each message goes one way, and equal hashes go the same.

Weighted rendezvous hashing: of each destination a score is computed from the message's hash, the
destination's name and its weight, and the best one wins. So shares are as the weights are, a change of
bindings moves only what comes to or from the destination that changed, and nothing depends on the order of
bindings: a restart moves no message.

Source: D. Thaler and C. Ravishankar, "Using name-based mappings to increase hit rates", 1998; weights after
J. Schindelhauer and G. Schomaker, "Weighted distributed hash tables", 2005.
"""

import math
from collections.abc import Iterable

from exchanges.binding import Binding
from exchanges.errors import InvalidBindingArguments
from exchanges.hash_source import HashSource, hash64
from exchanges.message import Message

WEIGHT_MAX = 1_000_000  # far above any use; a share has 53 bits

# Choices remembered when a header or property decides; keys are in the cache of routes. About 10 MB.
CHOICES_MAX = 65_536

_MASK = (1 << 64) - 1
_UNIT = 2.0**-64


class _Destination:
    # Where bindings lead, and how much of all they are to get.
    __slots__ = ("bindings", "seed", "weight")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.weight = 0
        self.bindings: dict[Binding, None] = {}


class ConsistentHashIndex:
    """Destinations with their weights; two bindings of one destination add up.

    Args:
        source: what is hashed; None: the routing key.
    """

    remembers = False

    def __init__(self, source: HashSource | None) -> None:
        self._source = source
        self.key_decides = source is None
        self.reads_headers = source is not None
        self._destinations: dict[tuple[str, str], _Destination] = {}
        self._choices: dict[bytes, Binding] = {}

    def check(self, binding: Binding) -> None:
        """Refuse a binding key that is no weight."""
        weight_of(binding.routing_key)

    def add(self, binding: Binding) -> None:
        """Add a binding's weight to its destination."""
        name = (binding.destination_kind, binding.destination)
        found = self._destinations.get(name)
        if found is None:
            seed = hash64(f"{binding.destination_kind}/{binding.destination}".encode())
            found = self._destinations[name] = _Destination(seed)
        found.bindings[binding] = None
        found.weight += weight_of(binding.routing_key)
        self._choices.clear()

    def remove(self, binding: Binding) -> None:
        """Take a binding's weight from its destination."""
        name = (binding.destination_kind, binding.destination)
        found = self._destinations[name]
        del found.bindings[binding]
        found.weight -= weight_of(binding.routing_key)
        if not found.bindings:
            del self._destinations[name]
        self._choices.clear()

    def match(self, routing_key: bytes, message: Message) -> Iterable[Binding]:
        """Return the one binding of a message, if there is any at all."""
        if not self._destinations:
            return ()
        if self._source is None:
            return (self._choice(routing_key),)
        content = self._source(routing_key, message)
        chosen = self._choices.get(content)
        if chosen is None:
            chosen = self._choice(content)
            if len(self._choices) >= CHOICES_MAX:
                self._choices.clear()
            self._choices[content] = chosen
        return (chosen,)

    def _choice(self, content: bytes) -> Binding:
        hashed = hash64(content)
        best = min(
            self._destinations.values(), key=lambda each: _score(hashed ^ each.seed, each.weight)
        )
        return next(iter(best.bindings))


def weight_of(binding_key: str) -> int:
    """Return the weight that a binding's key says.

    Raises:
        InvalidBindingArguments: it says none.
    """
    digits = binding_key.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        reason = f"The binding key must be an integer: {binding_key!r}"
        raise InvalidBindingArguments("routing_key", reason)
    weight = int(binding_key) if len(binding_key) < 20 else WEIGHT_MAX + 1
    if weight < 1:
        raise InvalidBindingArguments("routing_key", "The binding key must be greater than 0")
    if weight > WEIGHT_MAX:
        reason = f"The binding key must not be greater than {WEIGHT_MAX}"
        raise InvalidBindingArguments("routing_key", reason)
    return weight


def _score(mixed: int, weight: int) -> float:
    # The finisher of SplitMix64: seeds that differ in one bit give scores that have nothing in common.
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return -math.log(((mixed ^ mixed >> 31) + 1) * _UNIT) / weight
