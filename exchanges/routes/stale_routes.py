"""Routes that left the cache, freed some at a time.

Freed at once they would hold the event loop: 65,536 routes of one queue for some 5 ms, 256 routes of 20,000
queues for 18 ms.
"""

from typing import Any

# Weight, an entry counting one and each queue in it one: 256 routes of one queue, 0.1 ms. One of 20,000 queues
# takes 0.1 to 0.7 ms.
LET_GO_FROM = 512


class StaleRoutes:
    """Dicts of routes, or by routes, that nothing else refers to.

    Each addition to the cache frees as much here, so cache and stale routes together stay below two caches.

    Attributes:
        tables: that are not freed yet.
    """

    def __init__(self) -> None:
        self.tables: list[dict[Any, Any]] = []
        self._arrivals = 0  # weight, since routes were last freed

    def add(self, table: dict[Any, Any]) -> None:
        """Take a dict that nothing else refers to, and free its entries over time."""
        if table:
            self.tables.append(table)

    def free(self, came: int) -> None:
        """Free as much weight as has come to the cache, at once or with the next call."""
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
