"""Paths as tables of routes and pages have them: /queues/{vhost}/{name}; {kind:[qe]} has a pattern."""

import re
from collections.abc import Mapping
from urllib.parse import quote

PART = re.compile(r"\{([\w.]+)(?::([^}]*))?\}")  # the name of a part, and its pattern


def part_names(template: str) -> tuple[str, ...]:
    """The names of its parts."""
    return tuple(name for name, _ in PART.findall(template))


def plain(template: str) -> str:
    """A template without patterns."""
    return PART.sub(r"{\1}", template)


def matched(template: str) -> str:
    """As the HTTP library matches it: its own pattern of a part leaves out braces."""
    return PART.sub(lambda part: f"{{{part[1]}:{part[2] or '[^/]+'}}}", template)


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The path of an object, encoded."""
    return PART.sub(lambda part: quote(parts[part[1]], safe=""), template)
