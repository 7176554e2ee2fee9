"""Held messages on a disk that fails for a while: they come when it is well again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from support.queue_samples import Node, running_node
from unit.log_backend.open_store import flushed
from unit.vhosts.delays.test_held_messages import SMALL, bodies, later, message

from routelog.log_backend import PartitionLog
from routelog.vhosts import HeldMessages
from routelog.vhosts.delays import due_delivery
from routelog.vhosts.delays.held_scan import HeldScan


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path / "data", SMALL, clocked=True) as node:
        yield node


async def failed_read(work: Callable[[], object]) -> None:
    """A read of a disk that fails."""
    raise OSError(5, "Input/output error")


async def passing(node: Node, condition: Callable[[], bool]) -> None:
    """Let the clock go on until a condition holds, with time for what threads do."""
    async with asyncio.timeout(30):
        while not condition():
            node.turns.pass_seconds(0.1)
            await asyncio.sleep(0.001)


async def on_disk(node: Node, held: HeldMessages, *delays: int) -> PartitionLog:
    """Hold messages that are in segments only; returns their log."""
    held.publish(message(*delays, size=2_000), True)
    await flushed(node.logs)
    for log in held.logs:
        log.evict(1 << 30)
    return next(log for log in held.logs if log.next_offset)


async def test_messages_whose_read_failed_are_delivered_once_it_succeeds(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, queue = await later(node)
    log = await on_disk(node, held, 20_000, 21_000)
    due = node.turns.clock.now() + 30_000_000
    with monkeypatch.context() as disk:
        disk.setattr(node.logs.reads, "run", failed_read)
        await passing(node, lambda: log.read_error is not None and node.turns.clock.now() > due)
        held.publish(message(15_000, now=node.turns.clock.now()), True)  # to the same log
        held.publish(message(5_000, now=node.turns.clock.now()), True)
        await passing(node, lambda: held.count == 3)
        assert bodies(queue) == [5_000]
    await passing(node, lambda: held.count == 0)
    assert bodies(queue) == [20_000, 21_000, 15_000]


async def test_many_that_cannot_be_read_leave_room_for_others(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(due_delivery, "COMING_MAX", 4)
    held, queue = await later(node)
    log = await on_disk(node, held, 20_000, 21_000, 22_000, 23_000)
    due = node.turns.clock.now() + 40_000_000
    monkeypatch.setattr(node.logs.reads, "run", failed_read)
    await passing(node, lambda: log.read_error is not None and node.turns.clock.now() > due)
    held.publish(message(5_000, now=node.turns.clock.now()), True)
    await passing(node, lambda: bodies(queue) == [5_000])
    assert held.count == 4
    assert caplog.text.count("waits for the next start") == 2


async def test_a_scan_goes_on_once_a_read_that_failed_succeeds(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, _ = await later(node)
    log = await on_disk(node, held, 20_000)
    part = held.logs.index(log)
    held.schedule.ends[part], held.scanned[part] = 0, False
    turns, done = node.turns, []
    with monkeypatch.context() as disk:
        disk.setattr(node.logs.reads, "run", failed_read)
        HeldScan(held, part, turns.scheduler, turns.call_later, lambda: done.append(part)).run()
        await passing(node, lambda: log.read_error is not None)
    await passing(node, lambda: held.scanned[part])
    assert done == [part]
