"""Chains of blocks, and records, for tests of replicas."""

from routelog.log_backend import ShardBlock
from routelog.mirror_cluster.protocol.shard_record import ShardRecord
from routelog.mirror_cluster.replica.chain import Chain

SHARD = 3


def blocks(*epochs: int, after: Chain | None = None) -> list[ShardBlock]:
    """A block an epoch given, behind the end of a chain, which gets them."""
    chain = after or Chain()
    made = []
    for epoch in epochs:
        made.append(ShardBlock.following(chain.end, SHARD, epoch, b"%d" % epoch))
        chain.extend(made[-1])
    return made


def chain_of(*epochs: int) -> Chain:
    """A chain with a block for each epoch given."""
    chain = Chain()
    blocks(*epochs, after=chain)
    return chain


def record(
    leader: str = "a",
    in_sync: str = "abc",
    claim: int = 1,
    epoch: int = 1,
    revision: int = 1,
    replicas: str = "abc",
) -> ShardRecord:
    """The record of a shard on the nodes a, b and c, whose disks are 1, 2 and 3."""
    disks = {"a": 1, "b": 2, "c": 3}
    return ShardRecord(
        shard=SHARD,
        leader=leader,
        claim=claim,
        epoch=epoch,
        in_sync=frozenset(in_sync),
        replicas=tuple(replicas),
        incarnations={node: disks[node] for node in in_sync},
        revision=revision,
    )
