"""Parses values of options, which Spark passes as text."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from routelog.spark_bridge.logs.errors import BadOption

_BOOLEANS = {"true": True, "false": False}
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_SECONDS = {None: 0.001, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?")
_FACTORS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
NUMBER_MAX = 2**63 - 1  # of Java's long, which offsets and limits become
NAME_BYTES_MAX = 255  # a short string of AMQP


def canonical_names(given: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    """Return options under their documented names; Spark may pass them in lower case.

    Raises:
        BadOption: an option is unknown.
    """
    by_lower_case = {option.lower(): option for option in known}
    options = {}
    for name, value in given.items():
        if name.lower() not in by_lower_case:
            near = get_close_matches(name.lower(), by_lower_case, 1)
            there_are = f"there are {', '.join(known)}"
            hint = f"did you mean {by_lower_case[near[0]]}?" if near else there_are
            raise BadOption(name, f"unknown; {hint}")
        options[by_lower_case[name.lower()]] = value
    return options


class OptionValues:
    """Options by their documented names; each method parses a value of one form.

    All methods raise BadOption, which names the option, for a value of another form.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._options = given

    def __contains__(self, option: str) -> bool:
        return option in self._options

    def text(self, option: str, default: str) -> str:
        """The value as it is."""
        return self._options.get(option, default)

    def name(self, option: str) -> str | None:
        """A name that fits a short string of AMQP, perhaps empty; None if the option is not given."""
        text = self._options.get(option)
        if text is not None and len(text.encode()) > NAME_BYTES_MAX:
            raise BadOption(option, f"is longer than {NAME_BYTES_MAX} bytes")
        return text

    def positive(self, option: str) -> int | None:
        """A number above 0; None when the option is not given."""
        text = self._options.get(option)
        if text is None:
            return None
        if not text.strip().isdecimal() or int(text) == 0:
            raise BadOption(option, f"expected a number above 0, not '{text}'")
        if int(text) > NUMBER_MAX:
            raise BadOption(option, f"expected a number up to {NUMBER_MAX}, not '{text}'")
        return int(text)

    def number(self, option: str, default: int) -> int:
        """A number, 0 or above."""
        text = self._options.get(option, str(default))
        if not text.strip().isdecimal():
            raise BadOption(option, f"expected a number, not '{text}'")
        return int(text)

    def size(self, option: str) -> int | None:
        """Bytes above 0: `1000`, `64m` or `64mb`, with powers of 1,024; None when not given."""
        text = self._options.get(option)
        if text is None:
            return None
        match = _SIZE.fullmatch(text.strip().lower())
        if match is None or int(match[1]) == 0:
            raise BadOption(option, f"expected bytes above 0 like 1000 or 64m, not '{text}'")
        size = int(match[1]) * _FACTORS[match[2]]
        if size > NUMBER_MAX:
            raise BadOption(option, f"expected at most {NUMBER_MAX} bytes, not '{text}'")
        return size

    def seconds(self, option: str, default: str) -> float:
        """A duration as Spark writes it: `500ms`, `30s`, `15m`; milliseconds without a unit."""
        text = self._options.get(option, default)
        match = _DURATION.fullmatch(text.strip().lower())
        if match is None:
            raise BadOption(option, f"expected a duration like 500ms, 30s or 15m, not '{text}'")
        return int(match[1]) * _SECONDS[match[2]]

    def boolean(self, option: str, *, default: bool) -> bool:
        """True or false, in any case."""
        return _BOOLEANS[self.choice(option, str(default).lower(), *_BOOLEANS)]

    def choice(self, option: str, default: str, *choices: str) -> str:
        """One of some words, in any case."""
        text = self._options.get(option, default)
        word = text.strip().lower()
        if word not in choices:
            raise BadOption(option, f"expected {' or '.join(choices)}, not '{text}'")
        return word
