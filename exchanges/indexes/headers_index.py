"""The headers exchange: bindings ask for headers with values, or for their presence."""

from collections import Counter
from collections.abc import Hashable, Mapping

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import (
    Held,
    Match,
    matches,
    with_destination,
    without_destination,
)
from routelog.exchanges.bindings.field_values import Incomparable, comparable
from routelog.exchanges.indexes.binding_index import Message
from routelog.exchanges.indexes.headers_pattern import (
    HeadersPattern,
    check_match_argument,
    headers_pattern,
)

_INCOMPARABLE = object()  # equal to no value that a binding can ask for

Pair = tuple[str, Hashable]


class _Entry:
    """A pattern and the destinations of its bindings. It is hashed by identity.

    A pattern may have thousands of pairs, and be listed under each: to hash the pattern each time would take
    quadratic time.
    """

    __slots__ = ("held", "pattern", "places")

    def __init__(self, pattern: HeadersPattern, places: tuple[Pair, ...]) -> None:
        self.pattern = pattern
        self.places = places
        self.held: Held = None


class HeadersIndex:
    """Headers patterns, listed by their pairs of name and value.

    A pattern that needs all its pairs is listed under one of them; a pattern that needs any pair is listed
    under each. A message is compared only with the patterns listed under its own headers. So the cost of a
    route depends on the patterns that share a pair with the message, and not on all bindings.
    """

    remembers = False

    def __init__(self) -> None:
        self._entries: dict[HeadersPattern, _Entry] = {}
        self._unconditional: _Entry | None = None
        self._all_by_pair: dict[Pair, set[_Entry]] = {}  # patterns that need all their pairs
        self._any_by_pair: dict[Pair, set[_Entry]] = {}  # patterns that need any of their pairs
        self._of_binding: dict[Binding, _Entry] = {}
        self._names: Counter[str] = Counter()

    @property
    def key_decides(self) -> bool:
        """Whether no binding looks at headers."""
        return not self._of_binding

    @property
    def reads_headers(self) -> bool:
        """Whether some binding looks at headers."""
        return bool(self._of_binding)

    def check(self, binding: Binding) -> None:
        """Refuse an unknown `x-match`."""
        check_match_argument(binding.arguments)

    def add(self, binding: Binding) -> None:
        """Add a binding under the pairs of its pattern."""
        pattern = headers_pattern(binding.arguments)
        entry = self._entries.get(pattern)
        if entry is None:
            entry = self._entries[pattern] = self._placed(pattern)
        self._of_binding[binding] = entry
        entry.held = with_destination(entry.held, binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding from under its pairs."""
        entry = self._of_binding.pop(binding)
        entry.held = without_destination(entry.held, binding)
        if entry.held is None:
            del self._entries[entry.pattern]
            self._displace(entry)

    def match(self, routing_key: bytes, message: Message) -> list[Match]:
        """Return the destinations of the bindings whose patterns match the headers."""
        matched = list(matches(self._unconditional.held)) if self._unconditional else []
        met: set[_Entry] = set()
        values = self._values_asked_for(message.headers)
        for name, value in values.items():
            for pair in ((name, None), (name, value)):
                met.update(self._any_by_pair.get(pair, ()))
                for entry in self._all_by_pair.get(pair, ()):
                    if entry.pattern.matches(values):
                        matched += matches(entry.held)
        for entry in met:
            matched += matches(entry.held)
        return matched

    def _placed(self, pattern: HeadersPattern) -> _Entry:
        entry = _Entry(pattern, self._index_pairs(pattern))
        if not pattern.pairs and not pattern.one_is_enough:
            self._unconditional = entry
        by_pair = self._by_pair(pattern)
        for pair in entry.places:
            by_pair.setdefault(pair, set()).add(entry)
        self._names.update(name for name, _ in pattern.pairs)
        return entry

    def _displace(self, entry: _Entry) -> None:
        if entry is self._unconditional:
            self._unconditional = None
        by_pair = self._by_pair(entry.pattern)
        for pair in entry.places:
            by_pair[pair].remove(entry)
            if not by_pair[pair]:
                del by_pair[pair]
        for name, _ in entry.pattern.pairs:
            self._names[name] -= 1
            if not self._names[name]:
                del self._names[name]

    def _by_pair(self, pattern: HeadersPattern) -> dict[Pair, set[_Entry]]:
        return self._any_by_pair if pattern.one_is_enough else self._all_by_pair

    def _index_pairs(self, pattern: HeadersPattern) -> tuple[Pair, ...]:
        if pattern.one_is_enough:
            return pattern.pairs
        # The pair with the fewest patterns: `type=audit` is common, `customer=17` is not.
        rarest = sorted(pattern.pairs, key=lambda pair: len(self._all_by_pair.get(pair, ())))
        return tuple(rarest[:1])

    def _values_asked_for(self, headers: Mapping[str, object]) -> dict[str, Hashable]:
        values: dict[str, Hashable] = {}
        for name, value in headers.items():
            if name in self._names:
                try:
                    values[name] = comparable(value)
                except Incomparable:
                    values[name] = _INCOMPARABLE
        return values
