import random

from unit.mirror_cluster.journals import blocks, chain_of

from routelog.log_backend import START, ShardBlock
from routelog.mirror_cluster.replica.chain import HEAD_BYTES, Chain


def test_an_empty_chain_ends_at_its_base() -> None:
    assert Chain().end == START
    assert Chain().epoch_ends() == (START,)
    assert Chain().mark(0) == START
    assert Chain().mark(1) is None


def test_a_chain_agrees_with_a_list_of_its_blocks() -> None:
    randomness = random.Random(5)
    for _ in range(200):
        _compare(randomness)


def _compare(randomness: random.Random) -> None:
    chain, model, base, epoch = Chain(), list[ShardBlock](), 0, 1
    for _ in range(randomness.randrange(30)):
        match randomness.randrange(5):
            case 0 if model:
                keep = randomness.randrange(base, len(model) + 1)
                chain.truncate(keep)
                del model[keep:]
                epoch += 1
            case 1 if model:
                base = randomness.randrange(base, len(model) + 1)
                chain.rebase(base)
            case _:
                epoch += randomness.randrange(2)
                model += blocks(epoch, after=chain)
    marks = {0: START} | {block.position: block.mark for block in model}
    assert chain.base == marks[base]
    assert chain.end == marks[len(model)]
    for position in range(len(model) + 2):
        assert chain.mark(position) == (marks.get(position) if position >= base else None)
    ends = {mark.epoch: mark for position, mark in sorted(marks.items()) if position >= base}
    assert chain.epoch_ends() == tuple(ends.values())
    for each in range(epoch + 2):
        assert chain.epoch_end(each) == ends.get(each)
    sizes = [HEAD_BYTES + len(block.payload) for block in model]
    for after in range(base, len(model) + 1):
        bytes_max = randomness.randrange(200)
        reached = after
        while reached < len(model) and sum(sizes[after : reached + 1]) <= bytes_max:
            reached += 1
        assert chain.reach(after, bytes_max) == max(reached, min(after + 1, len(model)))


def test_a_chain_is_rebased_only_to_a_block_that_it_has() -> None:
    chain = chain_of(1, 1, 2)
    chain.rebase(2)
    chain.rebase(1)
    chain.rebase(9)
    assert chain.base.position == 2


def test_a_follower_that_asks_for_what_is_gone_is_offered_what_is_there() -> None:
    chain = Chain()
    for block in blocks(1, 1, 1, 1, 1):
        chain.add(block.mark, 100 - HEAD_BYTES)
    assert (chain.reach(1, 300), chain.reach(1, 299), chain.reach(1, 0)) == (4, 3, 2)
    chain.rebase(3)
    assert (chain.reach(1, 0), chain.reach(1, 500)) == (4, 5)
