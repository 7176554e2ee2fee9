"""Lines of the broker's own log."""

from typing import Any, TypedDict


class LogPage(TypedDict):
    """Lines, oldest first, and where to go on. What a line says depends on its event."""

    items: list[dict[str, Any]]
    next: int
