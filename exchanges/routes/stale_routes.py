"""Routes that nobody asks for any more, freed some at a time.

All at once they would hold the event loop: 65,536 of one queue each for some 5 ms, and 256 of 20,000 for 18.
One by one they cost more, as each lies elsewhere in memory.
"""

from typing import Any

# Weight, an entry counting one and each queue in it one: 256 routes of one queue, 0.1 ms. One of 20,000 queues
# takes 0.1 to 0.7 ms.
LET_GO_FROM = 512


class StaleRoutes:
    """The last to know them: dicts of routes, or by routes, whose values are as long as these.

    As much is let go of as comes elsewhere meanwhile, so both together stay as small as what comes may be.

    Attributes:
        tables: with what is left; without any, nothing has to be let go of.
    """

    def __init__(self) -> None:
        self.tables: list[dict[Any, Any]] = []
        self._came = 0  # since the last time that some were let go of

    def add(self, table: dict[Any, Any]) -> None:
        """Free the entries of a dict that nobody else has."""
        if table:
            self.tables.append(table)

    def let_go(self, came: int) -> None:
        """So much weight has come elsewhere: free as much, now or when there is more."""
        self._came += came
        if self._came < LET_GO_FROM:
            return
        left, self._came = self._came, 0
        while self.tables and left > 0:
            table = self.tables[-1]
            while table and left > 0:
                left -= 1 + len(table.popitem()[1])
            if not table:
                self.tables.pop()
