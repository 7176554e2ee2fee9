"""Whether a user may do something."""

from typing import NotRequired, TypedDict


class RuleRow(TypedDict):
    """A rule that was asked, in words."""

    rule: str
    allowed: bool
    text: str
    pattern: NotRequired[str]


class Verdict(TypedDict):
    """What the rules say, in their order; the last one decides."""

    allowed: bool
    rules: list[RuleRow]
    exists: bool
