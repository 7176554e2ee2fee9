"""The consistent hash exchange: each message goes to one destination, equal hashes to the same one.

Weighted rendezvous hashing: each destination gets a score from the message's hash, its name and its weight, and
the best one wins. So shares are proportional to weights, a change of bindings moves messages only to or from
the destination that changed, and the order of bindings does not matter: a restart moves no message.

Source: D. Thaler and C. Ravishankar, "Using name-based mappings to increase hit rates", 1998; weights after
J. Schindelhauer and G. Schomaker, "Weighted distributed hash tables", 2005.
"""

import hashlib
import math
from collections.abc import Callable, Iterable

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.errors import InvalidBindingArguments, InvalidExchangeArguments
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.bindings.field_values import octets
from routelog.exchanges.indexes.binding_index import Message
from routelog.exchanges.indexes.equal_weights import EqualWeights

HASH_HEADERS = (
    "hash-header",
    "x-hash-on",
)  # as rabbitmq_consistent_hash_exchange, and LavinMQ, call it
HASH_PROPERTY = "hash-property"
PROPERTIES = ("correlation_id", "message_id", "timestamp")

# The octets to hash. A missing header or property is hashed as no octets: all such messages go to one
# destination.
HashSource = Callable[[bytes, Message], bytes]

WEIGHT_MAX = 1_000_000  # far above any use; a share has 53 bits
# Cached choices, if a header or property is hashed; for routing keys, routes are cached. About 10 MB.
CHOICES_MAX = 65_536
_UNIT = 2.0**-64


def hash_source(exchange: Exchange) -> HashSource | None:
    """Return the function that takes the octets to hash out of a message; None: hash the routing key.

    Raises:
        InvalidExchangeArguments: header and property are both given, or one of them is invalid.
    """
    header = next(
        (each for each in map(exchange.arguments.get, HASH_HEADERS) if each is not None), None
    )
    name = exchange.arguments.get(HASH_PROPERTY)
    if header is not None and name is not None:
        raise InvalidExchangeArguments("hash-header and hash-property are mutually exclusive")
    if header is not None:
        if not isinstance(header, str):
            raise InvalidExchangeArguments("hash-header must be a string")
        return lambda routing_key, message: octets(message.headers.get(header))
    if name is not None:
        if name not in PROPERTIES:
            raise InvalidExchangeArguments(f"Unsupported property: {name}")
        return lambda routing_key, message: message.value(str(name)) or b""
    return None


def hash64(content: bytes) -> int:
    """64 bits that are the same on every machine and after every start."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


class _Destination:
    __slots__ = ("bindings", "place", "seed", "weight")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.place = -1
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
        self._weights: dict[int, EqualWeights[_Destination]] = {}
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
        self._weigh(found, found.weight + weight_of(binding.routing_key))
        self._choices.clear()

    def remove(self, binding: Binding) -> None:
        """Take a binding's weight from its destination."""
        name = (binding.destination_kind, binding.destination)
        found = self._destinations[name]
        del found.bindings[binding]
        self._weigh(found, found.weight - weight_of(binding.routing_key))
        if not found.bindings:
            del self._destinations[name]
        self._choices.clear()

    def _weigh(self, destination: _Destination, weight: int) -> None:
        before = self._weights.get(destination.weight)
        if before is not None:
            before.remove(destination)
            if not before.destinations:
                del self._weights[destination.weight]
        destination.weight = weight
        if weight:
            self._weights.setdefault(weight, EqualWeights()).add(destination)

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
        first = math.inf, 0, 0
        for weight, equals in self._weights.items():
            place, mixed = equals.best(hashed)
            first = min(first, (-math.log((mixed + 1) * _UNIT) / weight, weight, place))
        _, weight, place = first
        # Any binding of the destination will do.
        return next(iter(self._weights[weight].destinations[place].bindings))


def weight_of(binding_key: str) -> int:
    """Return the weight in a binding's key.

    Raises:
        InvalidBindingArguments: the key is no valid weight.
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
