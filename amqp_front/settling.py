"""Very many deliveries that are no neighbours, settled some in each turn of the event loop."""

import asyncio
from collections.abc import Callable, Iterable

from amqp_front.piecework import Piecework
from amqp_front.services import Services
from amqp_front.unacked import UnackedRun

RUNS_MAX = 1_024  # of one turn: 1 to 2 ms


class Settling:
    """The runs of deliveries that are left; see `Work`.

    Args:
        runs: in their order.
        settle: settles some of them.
    """

    def __init__(
        self, runs: list[UnackedRun], settle: Callable[[Iterable[UnackedRun]], None]
    ) -> None:
        self._left = runs[::-1]
        self._settle = settle

    def go_on(self, whole: bool) -> bool:
        """See `Work`."""
        count = len(self._left) if whole else RUNS_MAX
        some = self._left[-count:]
        del self._left[-count:]
        some.reverse()
        self._settle(some)
        return not self._left


def settled_in_turns(
    runs: list[UnackedRun], settle: Callable[[Iterable[UnackedRun]], None], services: Services
) -> asyncio.Future[None]:
    """Begin to settle; done when all of them are."""
    return Piecework(Settling(runs, settle), services.piecework, services.loop).done
