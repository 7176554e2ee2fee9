"""Where two journals part: what a leader finds out from a follower's `Hello`.

One leader makes all blocks of an epoch, so of two journals that both have some of an epoch, one has the
start of what the other has. The newest epoch that both know decides; the checksums say whether that is so.

Source: Kafka's KIP-101 and KIP-279, with a checksum over the whole past added.
"""

from collections.abc import Sequence

from routelog.mirror_cluster.protocol.block import Mark
from routelog.mirror_cluster.replica.chain import Chain


def common_point(ours: Chain, epoch_ends: Sequence[Mark]) -> Mark | None:
    """The last block that the leader's journal and a follower's have in common.

    Args:
        epoch_ends: the follower's, oldest first.

    Returns:
        The block; None when it is before the leader's base, or the checksums contradict the epochs:
        then the follower needs a copy.
    """
    for theirs in reversed(epoch_ends):
        end = ours.epoch_end(theirs.epoch)
        if end is None:
            continue
        if end.position < theirs.position:
            return end  # the follower holds its own checksum against it
        return theirs if ours.mark(theirs.position) == theirs else None
    return None
