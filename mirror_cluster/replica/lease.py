"""A node's lease with the coordinator: who has none is taken for dead.

A renewal is given only by a node that works: its disk wrote and synced something, and its event loop turned,
within the lease. The deadline counts from when the renewal was *sent*; it decides when to doubt, and the
epoch in each block keeps data safe when it is wrong.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProbeDisk:
    """Write something small where the journal is, and sync it; answered by `Lease.probed`."""


@dataclass(frozen=True, slots=True)
class RenewLease:
    """Ask the coordinator; answered by `Lease.renewed` with this time."""

    sent_at: float


@dataclass(frozen=True, slots=True)
class LeaseChanged:
    """The lease is held, or lost: each replica of the node is told."""

    is_held: bool


LeaseAction = ProbeDisk | RenewLease | LeaseChanged


class Lease:
    """The state machine of a node's lease.

    Args:
        seconds: how long the coordinator keeps it.
        margin_seconds: it is given up so much earlier than the coordinator does.
    """

    def __init__(self, seconds: float, margin_seconds: float) -> None:
        self.is_held = False
        self._seconds = seconds
        self._margin = margin_seconds
        self._deadline = 0.0
        self._probe_sent: float | None = None
        self._worked_at: float | None = None  # when the newest probe that came back was sent
        self._asked_at = float("-inf")

    @property
    def until(self) -> float:
        """When it is given up, unless it is renewed before."""
        return self._deadline

    def tick(self, now: float) -> list[LeaseAction]:
        """Called by the event loop, several times a lease: a loop that hangs renews nothing."""
        actions: list[LeaseAction] = []
        if self.is_held and now >= self._deadline:
            self.is_held = False
            actions.append(LeaseChanged(False))
        pace = self._seconds / 4
        if now - self._asked_at < pace:
            return actions
        if self._probe_sent is None and not self._has_worked(now, pace):
            self._probe_sent = now
            actions.append(ProbeDisk())
        if self._has_worked(now, 2 * pace):
            self._asked_at = now
            actions.append(RenewLease(now))
        return actions

    def probed(self, now: float) -> list[LeaseAction]:
        """The disk has synced the probe."""
        self._worked_at, self._probe_sent = self._probe_sent, None
        return self.tick(now)

    def renewed(self, sent_at: float, now: float) -> list[LeaseAction]:
        """The coordinator has renewed it."""
        self._deadline = max(self._deadline, sent_at + self._seconds - self._margin)
        if self.is_held or now >= self._deadline:
            return []
        self.is_held = True
        return [LeaseChanged(True)]

    def _has_worked(self, now: float, within: float) -> bool:
        return self._worked_at is not None and now - self._worked_at < within
