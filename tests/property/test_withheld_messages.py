"""Messages that are taken out of their order, against a dictionary: nobody else's place or flag changes."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.queue_samples import Taker, declare_queue, fill, running_node

from routelog.log_backend import Reason
from routelog.vhosts import QueueProperties, ReturnReason, WithheldMessages

READY, GIVEN, WITHHELD, SETTLED = "ready", "given", "withheld", "settled"
COUNT = 24

PLACES = st.integers(0, COUNT)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("withhold"), PLACES, PLACES),
        st.tuples(st.just("settle"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("put back"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("take"), st.integers(1, 5), st.just(0)),
        st.tuples(st.just("return"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("unused"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("ack"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("purge"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@pytest.mark.parametrize("priorities", [None, 3])
@given(steps=STEPS, batch=st.integers(1, COUNT))
@settings(max_examples=150, deadline=None)
def test_a_partition_and_a_dictionary_agree(
    priorities: int | None, steps: list[tuple[str, int, int]], batch: int
) -> None:
    with tempfile.TemporaryDirectory() as data:
        asyncio.run(_agree(Path(data), priorities, steps, batch))


async def _agree(
    data: Path, priorities: int | None, steps: list[tuple[str, int, int]], batch: int
) -> None:
    async with running_node(data) as node:
        arguments = {} if priorities is None else {"x-max-priority": priorities}
        properties = QueueProperties("q", durable=False, arguments=arguments)
        queue = declare_queue(node.vhost, properties, object())[0]
        fill(queue, COUNT, batch)
        partition = queue.partitions[0]
        source = WithheldMessages(partition)
        state = dict.fromkeys(range(COUNT), READY)
        again: set[int] = set()  # what is marked redelivered
        held: list[tuple[int, int]] = []
        given_out: list[tuple[int, int]] = []

        def mark(first: int, end: int, value: str) -> None:
            for offset in range(first, end):
                if state[offset] != SETTLED:
                    state[offset] = value

        for what, one, other in steps:
            if what == "withhold":
                taken = partition.withhold(one, other)
                expected = [o for o in range(one, other) if state[o] == READY]
                assert [o for first, end in taken for o in range(first, end)] == expected
                for each in taken:
                    mark(*each, WITHHELD)
                held += taken
            elif what in ("settle", "put back") and held:
                first, end = held.pop(one % len(held))
                if what == "settle":
                    source.settle(first, end, Reason.PURGED)
                    mark(first, end, SETTLED)
                else:
                    source.give_back(first, end, ReturnReason.FAILED)
                    mark(first, end, READY)
            elif what == "take":
                delivery = partition.take(one, 1_000_000)
                ready = [o for o in range(COUNT) if state[o] == READY]
                assert (delivery is None) == (not ready)
                if delivery is not None:
                    end = delivery.offset + delivery.count
                    assert list(range(delivery.offset, end)) == ready[: delivery.count]
                    marked = {o in again for o in range(delivery.offset, end)}
                    assert marked == {delivery.redelivered}
                    mark(delivery.offset, end, GIVEN)
                    given_out.append((delivery.offset, end))
            elif what in ("return", "unused", "ack") and given_out:
                first, end = given_out.pop(one % len(given_out))
                if what == "return":
                    again.update(range(first, end))
                    partition.give_back(first, end, ReturnReason.RETURNED)
                    mark(first, end, READY)
                elif what == "unused":
                    partition.give_back(first, end, ReturnReason.UNUSED)
                    mark(first, end, READY)
                else:
                    partition.settle(first, end)
                    mark(first, end, SETTLED)
            elif what == "purge":
                assert partition.purge() == sum(each == READY for each in state.values())
                for offset, was in state.items():
                    # What was ahead of the deliveries when it was withheld is purged, too.
                    if was == READY or offset in partition.cursor.settled:
                        state[offset] = SETTLED
            counts = [*state.values()]
            assert partition.ready == counts.count(READY), (what, state)
            ready_offsets = {o for f, e in partition.ready_ranges() for o in range(f, e)}
            assert ready_offsets == {o for o, each in state.items() if each == READY}
            unsettled = [o for o in state if o not in partition.cursor.settled]
            assert [o for o in unsettled if partition.is_ready(o)] == sorted(ready_offsets)
        left = [o for o in range(COUNT) if state[o] == READY]
        taker = Taker(no_ack=True)
        queue.add_consumer(taker)
        node.turns.run()
        assert taker.bodies() == [f"m{o}" for o in left]
