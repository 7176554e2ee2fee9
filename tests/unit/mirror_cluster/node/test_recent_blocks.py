"""The newest blocks in memory, compared with a list of all."""

from random import Random

from unit.mirror_cluster.journals import blocks

from routelog.mirror_cluster.node.recent_blocks import RecentBlocks
from routelog.mirror_cluster.protocol.block import Block
from routelog.mirror_cluster.replica.chain import Chain

BYTES_MAX = 6  # each block of `blocks` has one


def test_it_has_the_newest_and_no_others() -> None:
    randomness = Random(1)
    chain, recent = Chain(), RecentBlocks(BYTES_MAX)
    kept: list[Block] = []
    for _ in range(500):
        if randomness.random() < 0.2:
            position = max(chain.end_position - randomness.randrange(4), 0)
            chain.truncate(position)
            recent.truncate(position)
            kept = [each for each in kept if each.position <= position]
        (block,) = blocks(1, after=chain)
        recent.add(block)
        kept = [*kept, block][-BYTES_MAX:]
        first, end = kept[0].position, kept[-1].position
        for after in range(max(first - 3, 0), end + 1):
            wanted = [each for each in kept if after < each.position]
            whole = after + 1 >= first
            assert list(recent.between(after, end)) == (wanted if whole else [])
        assert not recent.between(end - 1, end + 1), "it is not there yet"


def test_behind_a_gap_it_begins_anew() -> None:
    chain, recent = Chain(), RecentBlocks(100)
    made = blocks(1, 1, 1, 1, after=chain)
    recent.add(made[0])
    recent.add(made[2])
    recent.add(made[3])
    assert list(recent.between(2, 4)) == made[2:]
    assert not recent.between(0, 1)


def test_one_block_is_kept_however_long_it_is() -> None:
    chain, recent = Chain(), RecentBlocks(0)
    first, second = blocks(1, 2, after=chain)
    recent.add(first)
    recent.add(second)
    assert list(recent.between(1, 2)) == [second]
