"""The times and limits of a replica."""

from dataclasses import dataclass

LAG_LEASES = 1.5  # a member that has not caught up for so many leases leaves the in-sync set


@dataclass(frozen=True)
class ReplicaSettings:
    """What is the same for all replicas of a shard.

    Attributes:
        min_in_sync: copies that a committed block has at least. The in-sync set is not made smaller than
            this: nothing would be committed anyhow, and each of its members can still lead without a loss.
        heartbeat_seconds: between two messages of an idle leader.
        lag_seconds: a member that has not caught up for so long leaves the in-sync set.
        retry_seconds: a follower without an answer asks again.
        election_step_seconds: the second candidate waits so long for the first one, the third twice that.
        lease_seconds: a leader without its lease goes on as long as members enough answered within this.
        window_bytes: of blocks sent and not acknowledged, one block at least: what may wait in memory for each
            follower; a quarter of a second of 1 Gbit/s.
    """

    min_in_sync: int = 2
    heartbeat_seconds: float = 0.5
    lag_seconds: float = 3.0
    retry_seconds: float = 1.0
    election_step_seconds: float = 0.3
    lease_seconds: float = 2.0
    window_bytes: int = 32 * 1024 * 1024

    @classmethod
    def of_lease(cls, seconds: float, min_in_sync: int) -> "ReplicaSettings":
        """What goes by the lease of the nodes."""
        return cls(
            min_in_sync=min_in_sync,
            heartbeat_seconds=seconds / 4,
            lag_seconds=LAG_LEASES * seconds,
            lease_seconds=seconds,
        )
