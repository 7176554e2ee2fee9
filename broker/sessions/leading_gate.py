"""Who publishes, or asks, waits while another node may lead: what that has answered is not known here."""

import asyncio
from collections.abc import Callable, Set
from math import inf

from routelog.broker.waiting.gate import UNLED, Gate
from routelog.log_backend import CallLater, Timer

LOOK_SECONDS = 0.05  # while publishers wait: the node hears of the others, or ends


class LeadingGate:
    """Closes the gate of a node that leads.

    Args:
        leads_until: see `ClusterMember`.
        now: the clock of that, in seconds.
    """

    def __init__(
        self,
        gate: Gate,
        leads_until: Callable[[], float],
        now: Callable[[], float],
        call_later: CallLater,
    ) -> None:
        self._gate = gate
        self._leads_until = leads_until
        self._now = now
        self._call_later = call_later
        self._pressure: Set[str] = frozenset()
        self._is_unsure = False
        self._sure: asyncio.Future[int] | None = None  # what answers wait for
        self._timer: Timer | None = None

    def begin(self, pressure: Set[str]) -> None:
        """The node leads.

        Args:
            pressure: why publishers are to wait.
        """
        self._pressure = pressure
        self._gate.lapse = self._look
        self._look()

    def pressed(self, pressure: Set[str]) -> None:
        """Publishers are to wait for other reasons, or for none."""
        self._pressure = pressure
        self._close()

    def sure(self) -> "asyncio.Future[int] | None":
        """What an answer waits for that tells of what is there, as this node knows it.

        Returns:
            Resolves when no other node can have led meanwhile, and never if one has: the node ends then. None:
            no other one can lead.
        """
        self._gate.look(self._now())
        if not self._is_unsure:
            return None
        if self._sure is None:
            self._sure = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._sure)

    def stop(self) -> None:
        """The node ends."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.stop()
        until = self._leads_until()
        self._is_unsure = self._now() >= until
        self._gate.lapses_at = inf if self._is_unsure else until
        if self._is_unsure:
            self._timer = self._call_later(LOOK_SECONDS, self._look)
        elif self._sure is not None:
            self._sure.set_result(0)
            self._sure = None
        self._close()

    def _close(self) -> None:
        unsure = frozenset({UNLED} if self._is_unsure else ())
        self._gate.close_for(self._pressure | unsure)
