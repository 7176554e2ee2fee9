"""Paths of routes as the HTTP library matches them."""

import re

_PART = re.compile(r"\{(\w+)\}")


def matched(path: str) -> str:
    """A path whose parts may hold any character; the library's own pattern leaves out braces."""
    return _PART.sub(r"{\1:[^/]+}", path)
