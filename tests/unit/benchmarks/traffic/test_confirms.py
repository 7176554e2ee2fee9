"""The confirm tally counts exactly, however the broker words its acks."""

import random

import pytest
from pamqp import commands, frame

from routelog.benchmarks.traffic.confirms import ConfirmTally
from routelog.benchmarks.traffic.frames import ack_frame, acks
from routelog.benchmarks.traffic.unexpected import UnexpectedFrame


def _random_acks(generator: random.Random, last_tag: int) -> list[tuple[int, bool]]:
    """Acks that settle every tag once: singles out of order, and multiples over the rest."""
    open_tags = set(range(1, last_tag + 1))
    acks = []
    while open_tags:
        tag = generator.choice(sorted(open_tags)[:8])
        multiple = generator.random() < 0.3
        acks.append((tag, multiple))
        open_tags -= {t for t in open_tags if t <= tag} if multiple else {tag}
    return acks


@pytest.mark.parametrize("seed", range(20))
def test_mixed_acks_count_like_a_set(seed: int) -> None:
    tally, settled = ConfirmTally(), set[int]()
    for tag, multiple in _random_acks(random.Random(seed), 60):
        settled |= set(range(1, tag + 1)) if multiple else {tag}
        tally.feed(ack_frame(tag, multiple))
        assert tally.confirmed == len(settled)


@pytest.mark.parametrize("step", [1, 20, 21, 22, 1000, 1 << 20])
def test_single_acks_in_order_count_whatever_the_reads(step: int) -> None:
    stream = b"".join(ack_frame(tag, multiple=False) for tag in range(1, 501))
    tally = ConfirmTally()
    for start in range(0, len(stream), step):
        tally.feed(stream[start : start + step])
    assert tally.confirmed == 500


def test_an_ack_missing_from_a_run_is_not_counted() -> None:
    tally = ConfirmTally()
    tally.feed(b"".join(ack_frame(tag, multiple=False) for tag in range(1, 100) if tag != 50))
    assert tally.confirmed == 98


def test_a_nack_is_refused() -> None:
    with pytest.raises(UnexpectedFrame, match="Nack"):
        ConfirmTally().feed(frame.marshal(commands.Basic.Nack(1, False, False), 1))


@pytest.mark.parametrize("first_tag", [1, 255, 65_535, 65_536, 131_071, (1 << 40) - 2])
def test_encoded_acks_are_those_of_pamqp(first_tag: int) -> None:
    encoded = b"".join(bytes(part) for part in acks(first_tag, 5))
    expected = [commands.Basic.Ack(tag, False) for tag in range(first_tag, first_tag + 5)]
    assert encoded == b"".join(frame.marshal(ack, 1) for ack in expected)
