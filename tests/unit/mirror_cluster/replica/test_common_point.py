import random

from unit.mirror_cluster.journals import blocks, chain_of

from routelog.log_backend import START, Mark
from routelog.mirror_cluster.replica.chain import Chain


def test_a_follower_that_is_behind_goes_on_from_its_end() -> None:
    leader, follower = chain_of(1, 1, 2), chain_of(1)
    assert leader.common_point(follower.epoch_ends()) == follower.end


def test_a_tail_that_the_leader_has_not_is_cut() -> None:
    leader, follower = chain_of(1, 1, 3), chain_of(1, 1, 1, 2, 2)
    assert leader.common_point(follower.epoch_ends()) == leader.mark(2)


def test_who_shares_nothing_begins_at_the_start() -> None:
    assert chain_of(2).common_point(chain_of(1).epoch_ends()) == START


def test_a_follower_before_the_leaders_base_needs_a_copy() -> None:
    leader = chain_of(1, 1, 1, 1)
    leader.rebase(3)
    assert leader.common_point(chain_of(1, 1).epoch_ends()) is None
    assert leader.common_point(chain_of(1, 1, 1).epoch_ends()) == leader.base


def test_no_common_point_is_found_for_a_follower_that_wants_a_copy() -> None:
    assert chain_of(1).common_point(()) is None


def test_checksums_that_contradict_their_epochs_are_damage() -> None:
    assert chain_of(1, 1).common_point((Mark(1, 1, 12345),)) is None


def test_the_point_is_the_last_one_that_both_have_in_random_histories() -> None:
    randomness = random.Random(7)
    for _ in range(300):
        chains = [Chain(), Chain(), Chain()]
        for epoch in range(1, randomness.randrange(2, 13)):
            # One leads an epoch; another one follows it for a while, cut back to what both have.
            leader, follower = randomness.sample(chains, 2)
            made = blocks(*[epoch] * randomness.randrange(1, 4), after=leader)
            common = leader.common_point(follower.epoch_ends())
            assert common is not None
            assert common == leader.mark(common.position) == follower.mark(common.position)
            assert _diverges(leader, follower, common.position + 1)
            if randomness.random() < 0.8:
                follower.truncate(common.position)
                for position in range(common.position + 1, leader.end_position + 1):
                    mark = leader.mark(position)
                    assert mark is not None
                    follower.add(mark, 0)
            assert made


def _diverges(one: Chain, other: Chain, position: int) -> bool:
    ours, theirs = one.mark(position), other.mark(position)
    return ours is None or theirs is None or ours != theirs
