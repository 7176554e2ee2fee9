"""The pattern of a headers binding: the pairs of name and value that it asks for."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from routelog.exchanges.bindings.errors import InvalidBindingArguments
from routelog.exchanges.bindings.field_values import comparable, field_type

MATCH_ARGUMENT = "x-match"

# x-match: (one pair is enough, pairs whose name begins with x- count)
_MATCH_KINDS = {
    "all": (False, False),
    "any": (True, False),
    "all-with-x": (False, True),
    "any-with-x": (True, True),
}


@dataclass(frozen=True, slots=True)
class HeadersPattern:
    """Pairs of a header's name and the comparable form of its value; None asks for presence."""

    one_is_enough: bool
    pairs: tuple[tuple[str, Hashable], ...]

    def matches(self, headers: Mapping[str, Hashable]) -> bool:
        """Tell whether headers, their values in comparable form, have all (or one) of the pairs.

        No pairs: `all` matches every message, `any` none.
        """
        found = (
            name in headers and (value is None or headers[name] == value)
            for name, value in self.pairs
        )
        return any(found) if self.one_is_enough else all(found)


def check_match_argument(arguments: Mapping[str, object]) -> None:
    """Refuse an `x-match` that is no known word; none at all means `all`.

    Raises:
        InvalidBindingArguments: the value is of another type or another word.
    """
    if MATCH_ARGUMENT not in arguments:
        return
    value = arguments[MATCH_ARGUMENT]
    if not isinstance(value, str):
        shown = "undefined" if value is None else str(value)[:80]
        raise InvalidBindingArguments(
            MATCH_ARGUMENT,
            f"Invalid x-match field type {field_type(value)} (value {shown}); expected longstr",
        )
    if value not in _MATCH_KINDS:
        raise InvalidBindingArguments(
            MATCH_ARGUMENT,
            f'Invalid x-match field value <<"{value[:80]}">>; '
            "expected all, any, all-with-x, or any-with-x",
        )


def headers_pattern(arguments: Mapping[str, object]) -> HeadersPattern:
    """Return the pattern of checked binding arguments."""
    one_is_enough, with_x = _MATCH_KINDS[str(arguments.get(MATCH_ARGUMENT, "all"))]
    pairs = tuple(
        (name, comparable(value))
        for name, value in arguments.items()
        if name != MATCH_ARGUMENT and (with_x or not name.startswith("x-"))
    )
    return HeadersPattern(one_is_enough, pairs)
