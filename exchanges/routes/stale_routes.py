"""Frees routes that left the cache, a few at a time.

To free all at once would block the event loop: 65,536 routes of one queue for some 5 ms, 256 routes of 20,000
queues for 18 ms.
"""

from typing import Any

# Weight that is freed at once, see ROUTE_CACHE_WEIGHT_MAX: 256 routes of one queue take 0.1 ms. A route of
# 20,000 queues takes 0.1 to 0.7 ms.
LET_GO_FROM = 512


class StaleRoutes:
    """Dicts of routes, or by routes, that nothing else refers to.

    Each addition to the cache frees the same weight here, so both together are at most twice the cache's limit.

    Attributes:
        tables: dicts that are not freed yet.
    """

    def __init__(self) -> None:
        self.tables: list[dict[Any, Any]] = []
        self._arrivals = 0  # weight added to the cache since routes were last freed

    def add(self, table: dict[Any, Any]) -> None:
        """Take a dict that nothing else refers to, and free its entries over time."""
        if table:
            self.tables.append(table)

    def free(self, came: int) -> None:
        """Free the weight that was added to the cache, now or with a later call."""
        self._arrivals += came
        if self._arrivals < LET_GO_FROM:
            return
        left, self._arrivals = self._arrivals, 0
        while self.tables and left > 0:
            table = self.tables[-1]
            while table and left > 0:
                left -= 1 + len(table.popitem()[1])
            if not table:
                self.tables.pop()
