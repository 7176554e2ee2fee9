"""A node of a cluster, as its leader knows it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """See the module.

    Attributes:
        is_damaged: some of its queues are quarantined: it cannot read all that it has.
        blocks_behind: blocks of the leader's journal that may not be on this node's disk; None: nobody knows.
    """

    name: str
    is_running: bool = True
    is_in_sync: bool = True
    blocks_behind: int | None = 0
    is_damaged: bool = False
