"""The node's lease with the coordinator: renewed when disk and event loop have just worked."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from routelog.log_backend import Clock, Disk, opened
from routelog.mirror_cluster.coordination.coordinator import (
    CoordinatorRefused,
    CoordinatorUnavailable,
    NodeEntry,
    NodeNameTaken,
)
from routelog.mirror_cluster.coordination.etcd_coordinator import EtcdCoordinator
from routelog.mirror_cluster.replica.lease import (
    Lease,
    LeaseAction,
    LeaseChanged,
    ProbeDisk,
    RenewLease,
)

log = logging.getLogger(__name__)

_WORD = b"routelog"

# Between two lines that say the same trouble: it is tried several times a second.
TELL_SECONDS = 60.0


class DiskProbe:
    """Writes a few bytes to a file of its own and syncs them.

    A sync that fails raises, and is final: the node ends.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._path = directory / "probe"
        self._disk = disk

    async def sync(self) -> None:
        """Returns when the disk has synced; on a disk that hangs it does not."""
        await asyncio.get_running_loop().run_in_executor(None, self._sync)

    def _sync(self) -> None:
        with opened(self._disk, self._path, create=True) as file:
            self._disk.write(file, 0, (_WORD,))
            self._disk.sync(file)


class LeaseKeeper:
    """Carries out what `Lease` decides.

    Args:
        entry: the node as it is at the moment; the coordinator lists it so soon.
        probe: writes something where the journal is, and syncs it.
        changed: told whether the lease is held.
        spawn: starts a task that somebody owns.
    """

    def __init__(
        self,
        lease: Lease,
        clock: Clock,
        coordinator: EtcdCoordinator,
        entry: Callable[[], NodeEntry],
        probe: Callable[[], Awaitable[None]],
        changed: Callable[[bool], None],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._lease = lease
        self._clock = clock
        self._coordinator = coordinator
        self._entry = entry
        self._probe = probe
        self._changed = changed
        self._spawn = spawn
        self._tell_from = float("-inf")
        self._registered: NodeEntry | None = None
        self._is_asking = False  # two registrations at once would find each other's entry

    @property
    def until(self) -> float:
        """See `Lease`."""
        return self._lease.until

    def listed(self, entry: NodeEntry | None) -> None:
        """How the coordinator lists the node; None: it does not, though its lease may be there."""
        if entry != self._registered:
            self._registered = None

    def tick(self) -> None:
        """Called by the event loop, several times a lease."""
        self._carry_out(self._lease.tick(self._clock.monotonic()))

    def _carry_out(self, actions: Sequence[LeaseAction]) -> None:
        for action in actions:
            match action:
                case ProbeDisk():
                    self._spawn(self._probe_disk())
                case RenewLease(sent_at):
                    if not self._is_asking:
                        self._is_asking = True
                        self._spawn(self._renew(sent_at))
                case LeaseChanged(is_held):
                    log.info("this node has a lease" if is_held else "this node's lease has ended")
                    self._changed(is_held)

    async def _probe_disk(self) -> None:
        await self._probe()
        self._carry_out(self._lease.probed(self._clock.monotonic()))

    async def _renew(self, sent_at: float) -> None:
        try:
            entry = self._entry()
            if entry != self._registered or not await self._coordinator.renew():
                await self._coordinator.register(entry)
                self._registered = entry
        except NodeNameTaken:
            self._tell(f"another node is called {self._entry().node}, or was a moment ago")
        except (CoordinatorUnavailable, CoordinatorRefused) as error:
            self._tell(f"the lease was not renewed: {error}")
        else:
            self._tell_from = float("-inf")
            self._carry_out(self._lease.renewed(sent_at, self._clock.monotonic()))
        finally:
            self._is_asking = False

    def _tell(self, trouble: str) -> None:
        now = self._clock.monotonic()
        if now >= self._tell_from:
            self._tell_from = now + TELL_SECONDS
            log.warning("%s", trouble)
