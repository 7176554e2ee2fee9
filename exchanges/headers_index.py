"""The headers exchange: bindings ask for headers with values, or for their presence."""

from collections import Counter
from collections.abc import Hashable, Mapping

from exchanges.binding import Binding
from exchanges.destinations import Held, Match, matches, with_destination, without_destination
from exchanges.field_values import Incomparable, comparable
from exchanges.headers_pattern import HeadersPattern, check_match_argument, headers_pattern
from exchanges.message import Message

# Equal to no value that a binding can ask for.
_LIKE_NOTHING = object()

Patterns = dict[HeadersPattern, Held]
Pair = tuple[str, Hashable]


class HeadersIndex:
    """Headers patterns, each under those of its pairs that a matching message must have.

    A pattern that needs all pairs stands under one of them, a pattern that needs one pair under
    each. A message looks only under its own headers, so what a route costs follows the patterns
    that share a pair with the message and not all bindings.
    """

    remembers = False

    def __init__(self) -> None:
        self._unconditional: Held = None
        self._under_pair: dict[Pair, Patterns] = {}
        self._places: dict[Binding, tuple[Pair, ...]] = {}
        self._names: Counter[str] = Counter()

    @property
    def key_decides(self) -> bool:
        """Whether there is nothing to look at headers for."""
        return not self._places

    @property
    def reads_headers(self) -> bool:
        """Whether a binding is there for which headers matter."""
        return bool(self._places)

    def check(self, binding: Binding) -> None:
        """Refuse an unknown `x-match`."""
        check_match_argument(binding.arguments)

    def add(self, binding: Binding) -> None:
        """Add a binding under as few pairs as will find it."""
        pattern = headers_pattern(binding.arguments)
        self._names.update(name for name, _ in pattern.pairs)
        if not pattern.pairs and not pattern.one_is_enough:
            self._unconditional = with_destination(self._unconditional, binding)
        self._places[binding] = self._pairs_to_stand_under(pattern)
        for pair in self._places[binding]:
            patterns = self._under_pair.setdefault(pair, {})
            patterns[pattern] = with_destination(patterns.get(pattern), binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding from under its pairs."""
        pattern = headers_pattern(binding.arguments)
        if not pattern.pairs and not pattern.one_is_enough:
            self._unconditional = without_destination(self._unconditional, binding)
        for pair in self._places.pop(binding, ()):
            patterns = self._under_pair[pair]
            held = without_destination(patterns[pattern], binding)
            if held is not None:
                patterns[pattern] = held
                continue
            del patterns[pattern]
            if not patterns:
                del self._under_pair[pair]
        for name, _ in pattern.pairs:
            self._release(name)

    def match(self, routing_key: bytes, message: Message) -> list[Match]:
        """Return where bindings lead whose patterns match the headers."""
        matched = list(matches(self._unconditional))
        values = self._values_asked_for(message.headers)
        for name, value in values.items():
            for pair in ((name, None), (name, value)):
                for pattern, held in self._under_pair.get(pair, {}).items():
                    if pattern.one_is_enough or pattern.matches(values):
                        matched += matches(held)
        return matched

    def _release(self, name: str) -> None:
        self._names[name] -= 1
        if not self._names[name]:
            del self._names[name]

    def _pairs_to_stand_under(self, pattern: HeadersPattern) -> tuple[Pair, ...]:
        if pattern.one_is_enough:
            return pattern.pairs
        # The pair that fewest others stand under: `type=audit` is common, `customer=17` is not.
        rarest = sorted(pattern.pairs, key=lambda pair: len(self._under_pair.get(pair, ())))
        return tuple(rarest[:1])

    def _values_asked_for(self, headers: Mapping[str, object]) -> dict[str, Hashable]:
        values: dict[str, Hashable] = {}
        for name, value in headers.items():
            if name in self._names:
                try:
                    values[name] = comparable(value)
                except Incomparable:
                    values[name] = _LIKE_NOTHING
        return values
