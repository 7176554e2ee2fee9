import pytest

from routelog.benchmarks.studies.replication import (
    Block,
    alone_round,
    blocks_of,
    mirrored_round,
)
from routelog.benchmarks.studies.traced_node import (
    ACKNOWLEDGED,
    COMMITTED,
    CONFIRMED,
    ENCODED,
    GATHER,
    SHIPPED,
    STORED,
    SYNCED,
    TAKE,
    TOLD,
    WRITE,
)

OWN = [GATHER, TAKE, ENCODED, SHIPPED, WRITE, SYNCED, TOLD, COMMITTED, CONFIRMED]
THEIRS = [STORED, WRITE, SYNCED, ACKNOWLEDGED]


def test_what_is_told_of_the_last_of_several_blocks_is_of_all_of_them() -> None:
    trace = "take 4 1000000000 77\ntake 5 2000000000 8\ncommitted 5 3000000000 0\n"
    blocks = blocks_of(trace)
    assert [blocks[position].size for position in (4, 5)] == [77, 8]
    assert blocks[4].at == {TAKE: 1.0, COMMITTED: 3.0}
    assert blocks[5].at == {TAKE: 2.0, COMMITTED: 3.0}


def test_the_parts_of_a_round_are_those_of_the_follower_that_was_last() -> None:
    leader = Block({step: float(at) for at, step in enumerate(OWN)}, 100)
    leader = Block({**leader.at, COMMITTED: 40.0, CONFIRMED: 41.0}, 100)
    followers = [Block({step: at + 10.0 * n for at, step in enumerate(THEIRS)}, 0) for n in (1, 2)]
    found = mirrored_round(leader, followers)
    assert found is not None
    assert found.size == 100
    assert found.parts["follower: received"] == 20.0 - leader.at[SHIPPED]
    assert found.parts["committed"] == 40.0 - 23.0
    assert found.parts["round"] == 41.0


@pytest.mark.parametrize("missing", OWN[:-3] + OWN[-2:])
def test_a_round_that_was_not_seen_whole_is_none(missing: str) -> None:
    whole = Block(dict.fromkeys((*OWN, *THEIRS), 1.0), 1)
    assert mirrored_round(whole, [whole, whole])
    part = Block({step: at for step, at in whole.at.items() if step != missing}, 1)
    assert mirrored_round(part, [whole, whole]) is None
    if missing in (GATHER, WRITE, SYNCED, CONFIRMED):
        assert alone_round(part) is None
