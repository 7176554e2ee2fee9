from dataclasses import replace

from unit.mirror_cluster.journals import SHARD, blocks, chain_of

from routelog.log_backend import START, ShardBlock


def test_a_block_follows_the_end_that_it_was_made_for_and_no_other() -> None:
    first, second = blocks(1, 1)
    assert first.follows(START)
    assert second.follows(first.mark)
    assert not second.follows(START)
    assert not second.follows(chain_of(2).end)


def test_a_block_of_an_older_epoch_does_not_follow() -> None:
    end = chain_of(2).end
    assert not ShardBlock.following(end, SHARD, 1, b"").follows(end)


def test_every_field_is_under_the_checksum() -> None:
    (block,) = blocks(1)
    assert block.is_intact
    for changed in (
        replace(block, shard=SHARD + 1),
        replace(block, epoch=2),
        replace(block, position=2),
        replace(block, previous=7),
        replace(block, payload=b"other"),
    ):
        assert not changed.is_intact
