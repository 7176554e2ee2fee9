"""What is measured of a delivery."""

from typing import Any, cast

import pytest
from support.queue_samples import SetClock, records

from routelog.broker.node.delivery_samples import MESSAGE_BYTES, DeliverySamples
from routelog.vhosts import Delivery, RemotePartition


def test_a_delivery_counts_with_its_first_message_and_what_comes_again_only_with_its_size() -> None:
    clock = SetClock()
    samples = DeliverySamples(clock)
    batch = records("x" * 50, "x" * 2_000, "x" * 200)
    clock.microseconds = batch.time + 2_000_000
    samples.take(Delivery(cast(Any, None), batch, 1, 2, 7, False))
    assert samples.sizes.counts == [0, 0, 1, *[0] * (len(MESSAGE_BYTES) - 2)]
    assert (sum(samples.waits.counts), samples.waits.sum) == (1, 2.0)
    samples.take(Delivery(cast(Any, None), batch, 0, 1, 6, True))
    assert samples.sizes.sum == 2_050
    assert sum(samples.waits.counts) == 1


def test_a_clock_that_was_set_back_makes_no_wait_negative() -> None:
    clock = SetClock()
    batch = records("x")
    clock.microseconds = batch.time - 5_000_000
    samples = DeliverySamples(clock)
    samples.take(Delivery(cast(Any, None), batch, 0, 1, 0, False))
    assert (sum(samples.waits.counts), samples.waits.sum) == (1, 0.0)


@pytest.mark.parametrize("in_cluster", [False, True])
def test_who_has_another_clock_measures_sizes_alone(in_cluster: bool) -> None:
    clock, batch = SetClock(), records("x")
    remote: Any = RemotePartition.__new__(RemotePartition)
    samples = DeliverySamples(clock, in_cluster=in_cluster)
    samples.take(Delivery(remote, batch, 0, 1, 0, False))
    assert (sum(samples.waits.counts), sum(samples.sizes.counts)) == (not in_cluster, 1)
    samples.take(Delivery(cast(Any, None), batch, 0, 1, 0, False))
    assert sum(samples.waits.counts) == 2 - in_cluster
