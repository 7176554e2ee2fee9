"""A dozen ways to use a node, each some hundred disk operations long.

A workload ends when everything it wants confirmed is; it returns the node that runs then. To add one, write a
coroutine function with the decorator: the power cuts and the disk faults take it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from crash.disks.committing import commit, commit_in_turns, fail_in_turns
from crash.disks.node import Node, until_gone, wait_for
from support.waiting import WAIT_SECONDS

from routelog.exchanges import Binding, Exchange
from routelog.vhosts import Policy, User, UserDirectory

Workload = Callable[[Node, Path], Awaitable[Node]]

WORKLOADS: dict[str, Workload] = {}


def workload(function: Workload) -> Workload:
    """Make a workload known under its function's name."""
    WORKLOADS[function.__name__] = function
    return function


@workload
async def append_only(node: Node, root: Path) -> Node:
    """Records of all sizes, confirmed in small groups."""
    await node.declare("a")
    for number in range(24):
        position = node.append("a", 1 + number % 3, (1, 100, 700)[number % 3])
        if number % 3 == 2:
            await node.confirmed(position)
    return node


@workload
async def append_and_ack(node: Node, root: Path) -> Node:
    """A consumer one step behind the publisher: hardly anything reaches a segment."""
    await node.declare("a")
    for number in range(20):
        await node.confirmed(node.append("a", 2, 200))
        node.settle("a", 2 * number, 2 * number + 2)
    await node.confirmed(node.append("a"))
    return node


@workload
async def acks_out_of_order(node: Node, root: Path) -> Node:
    """Holes in what is settled: every second record, then runs from the end to the start."""
    await node.declare("a")
    for _ in range(6):
        await node.confirmed(node.append("a", 10, 120))
    for offset in range(0, 60, 2):
        node.settle("a", offset, offset + 1)
        if offset % 10 == 0:
            await node.confirmed(node.append("a"))
    for first in (50, 40, 20, 30, 1):
        node.settle("a", first, first + 7)
        await node.confirmed(node.append("a", 1, 900))
    return node


@workload
async def many_queues(node: Node, root: Path) -> Node:
    """A dozen queues that share every commit."""
    names = [f"q{number}" for number in range(12)]
    await node.declare(*names)
    for turn in range(8):
        for number, name in enumerate(names):
            position = node.append(name, 1 + number % 2, 150)
        await node.confirmed(position)
        for name in names[turn % 3 :: 3]:
            node.settle(name, turn, turn + 1)
    await node.store.checkpoints.flush()
    await node.confirmed(node.append("q0"))
    return node


@workload
async def fan_outs(node: Node, root: Path) -> Node:
    """Records that several queues share, some of which settle them at once."""
    names = [f"q{number}" for number in range(6)]
    await node.declare(*names)
    for turn in range(9):
        position = node.fan_out(*names[turn % 3 :], size=(100, 700, 6_000)[turn % 3])
        if turn % 3:
            await node.confirmed(position)
            node.settle("q5", turn - 1, turn + 1)
        if turn == 4:
            await node.store.checkpoints.flush()
    await node.confirmed(node.append("q0"))
    return node


@workload
async def large_batches_over_segments(node: Node, root: Path) -> Node:
    """Batches larger than a segment, and than a journal file, between small ones."""
    await node.declare("a", "b")
    for size in (3_000, 9_000, 10, 20_000, 5_000, 100, 12_000, 4_000):
        await node.confirmed(node.append("a", 1, size))
        node.append("b", 3, 30)
        await node.store.checkpoints.flush()
    node.settle("a", 0, 4)
    await node.confirmed(node.append("b"))
    return node


@workload
async def journal_files_recycled(node: Node, root: Path) -> Node:
    """The journal goes round through all its files, a checkpoint each."""
    await node.declare("a", "b")
    for number in range(26):
        position = node.append("ab"[number % 2], 2, 1_500)
        if number % 2:
            await node.confirmed(position)
        if number % 5 == 4:
            node.settle("a", number - 4, number - 2)
    return node


@workload
async def transient_between_persistent(node: Node, root: Path) -> Node:
    """Transient records get offsets, too, and end with the run."""
    await node.declare("a")
    for number in range(18):
        node.append("a", 2, 300, persistent=False)
        position = node.append("a", 1, 300)
        if number % 4 == 3:
            await node.confirmed(position)
            await node.store.checkpoints.flush()
            node.settle("a", 3 * number - 6, 3 * number - 2)
    await node.confirmed(position)
    return node


@workload
async def purges(node: Node, root: Path) -> Node:
    """Queues that are purged with records in memory, in segments and on their way there."""
    await node.declare("a", "b")
    for turn in range(6):
        node.append("b", 1, 50)
        await node.confirmed(node.append("a", 6, 500))
        if turn % 2:
            await node.store.checkpoints.flush()
        node.append("a", 2, 100)
        node.purge("a")
        await node.confirmed(node.append("b", 1, 50))
    await node.confirmed(node.append("a", 2))
    return node


@workload
async def emptied_and_filled_again(node: Node, root: Path) -> Node:
    """Queues that go on in the segment that they have emptied, synced or not, and that lose it meanwhile."""
    await node.declare("a", "b", "idle")
    for turn in range(9):
        first = node.log("a").next_offset
        node.append("idle", 2, 60)
        await node.confirmed(node.append("a", 3, 300))
        await node.store.checkpoints.flush()
        if turn % 3 == 1:
            node.append("b", 1, 9_000)
            await node.confirmed(node.append("b", 1, 9_000))  # and a checkpoint
        node.settle("a", first, first + 3)
        node.purge("idle")
        if turn % 3 == 2:
            node.purge("b")
            await until_gone(node, "idle")
    await node.confirmed(node.append("a"))
    return node


@workload
async def queues_made_again_under_their_names(node: Node, root: Path) -> Node:
    """Deleted and declared again, in order and without waiting in between."""
    await node.declare("a", "kept")
    await node.confirmed(node.append("kept", 3))
    for turn in range(5):
        await node.confirmed(node.append("a", 4, 900))
        await node.store.checkpoints.flush()
        if turn % 2:
            await node.delete("a")
            await node.declare("a")
        else:
            await wait_for(node.deleting("a"), node.declaring("a"))
        await node.confirmed(node.append("a", 2, 100))
    await node.confirmed(node.append("kept"))
    return node


@workload
async def streams_and_retention(node: Node, root: Path) -> Node:
    """A stream with a limit, one without, and a queue that keeps what was consumed."""
    await node.declare("limited", keeps=True, x_queue_type="stream", x_max_length_bytes=20_000)
    await node.declare("endless", keeps=True, x_queue_type="stream")
    await node.declare("kept", keeps=True, x_retention="1D")
    for number in range(16):
        node.append("endless", 1, 300, persistent=number % 3 > 0)
        node.append("kept", 2, 400)
        await node.confirmed(node.append("limited", 2, 1_500))
        if number % 3 == 2:
            node.settle("kept", 2 * number - 4, 2 * number)
            await node.store.checkpoints.flush()
    await node.confirmed(node.append("kept"))
    return node


@workload
async def restarts_in_between(node: Node, root: Path) -> Node:
    """A clean stop and a kill, and work on what they leave."""
    await node.declare("a", "b")
    for turn in range(4):
        node.append("b", 1, 2_000)
        await node.confirmed(node.append("a", 5, 600))
        node.settle("a", 5 * turn, 5 * turn + 3)
        if turn % 2:
            node = await node.restart()
        else:
            await node.confirmed(node.append("b"))
            node = await node.restart_after_kill(root / f"restarted-{turn}")
    await node.confirmed(node.append("a"))
    return node


@workload
async def eviction_and_cold_reads(node: Node, root: Path) -> Node:
    """More than memory holds, read back from segments and settled."""
    await node.declare("a", "b")
    for number in range(12):
        node.append("a", 4, 800)
        await node.confirmed(node.append("b", 1, 200))
        if number % 4 == 3:
            await node.store.checkpoints.flush()
            await node.read("a")
            node.settle("a", 4 * number - 12, 4 * number - 4)
    await node.confirmed(node.append("b"))
    return node


@workload
async def topology_that_changes(node: Node, root: Path) -> Node:
    """Exchanges, bindings and queues come and go while messages do."""
    await node.declare("a")
    for number in range(8):
        name = f"x{number % 3}"
        node.vhost.declare_exchange(Exchange(name, "topic", durable=True))
        node.vhost.bind(Binding(name, "a", "queue", f"key.{number}"))
        answers = [node.declaring(f"t{number}")]
        if number >= 2:
            answers.append(node.deleting(f"t{number - 2}"))
        await node.confirmed(node.append("a", 1, 1_000))
        await wait_for(*answers)
        await node.confirmed(node.append(f"t{number}", 2, 300))
        retention = "1h" if number % 2 else None
        queue = node.vhost.queues[f"t{number}"]
        await wait_for(
            asyncio.ensure_future(node.vhost.change_queue(queue, {"x-retention": retention}))
        )
        node.vhost.delete_exchange(name, if_unused=False)
    return node


@workload
async def topology_in_flight(node: Node, root: Path) -> Node:
    """Queues, bindings, users and policies come and go, and hardly anybody waits for an answer."""
    await node.declare("kept")
    users = UserDirectory(node.writer, _no_hash)
    answers: list[Awaitable[object]] = []
    for number in range(24):
        answers.append(node.declaring(f"f{number}"))
        changed = node.vhost.change_queue(node.vhost.queues["kept"], {"x-max-length": 100 + number})
        answers.append(asyncio.ensure_future(changed))
        node.vhost.bind(Binding("amq.direct", "kept", "queue", f"key.{number}"))
        answers.append(asyncio.ensure_future(users.put_user(User(f"u{number % 3}", f"{number}"))))
        policy = Policy("p", f"^f{number}$", {"delivery-limit": 1 + number})
        answers.append(asyncio.ensure_future(node.vhost.policies.put(policy)))
        node.append(f"f{number}", 1, 200)
        if number % 4 == 3:
            answers += [node.deleting(f"f{number - each}") for each in (1, 3)]
        if number % 8 == 7:
            async with asyncio.timeout(WAIT_SECONDS):
                await asyncio.gather(*answers)
            answers.clear()
    async with asyncio.timeout(WAIT_SECONDS):
        await asyncio.gather(*answers)
    return node


async def _no_hash(password: bytes) -> str:
    return password.decode()


@workload
async def transactions(node: Node, root: Path) -> Node:
    """Acks of one queue and publishes to others, between publishes of everybody else."""
    await node.declare("in", "a", "b")
    await node.confirmed(node.append("in", 40, 300))
    for number in range(20):
        node.append("a", 1, 200, waited=False)
        size = (100, 900, 2_500)[number % 3]
        position = commit(
            node, {"a": 1, "b": 2, "in": 1}, {"in": (2 * number, 2 * number + 2)}, size
        )
        node.append("b", 1, 200, waited=False)
        if number % 4 == 1:
            await node.store.checkpoints.flush()
        if number % 2:
            await node.confirmed(position)
        if number == 10:
            node = await node.restart()
    await node.confirmed(position)
    return node


@workload
async def transactions_in_turns(node: Node, root: Path) -> Node:
    """The same, in several turns of the event loop."""
    await node.declare("in", "a", "b")
    await node.confirmed(node.append("in", 20, 300))
    for number in range(10):
        size = (100, 900, 2_500)[number % 3]
        settles = {"in": (2 * number, 2 * number + 2)}
        position = await commit_in_turns(node, {"a": 2, "in": 1, "b": 1}, settles, size)
        if number % 2:
            await node.confirmed(position)
        if number == 5:
            node = await node.restart()
    await node.confirmed(position)
    return node


@workload
async def transactions_that_fail(node: Node, root: Path) -> Node:
    """Some fail in their last turn; what others append meanwhile, and what comes behind, is as good as ever."""
    await node.declare("in", "a", "b")
    await node.confirmed(node.append("in", 20, 300))
    for number in range(8):
        size = (100, 900, 2_500)[number % 3]
        settles = {"in": (2 * number, 2 * number + 2)}
        await fail_in_turns(node, {"a": 2, "in": 1, "b": 1}, settles, size)
        position = node.append("ab"[number % 2], 1, size)
        if number % 3 == 1:
            position = await commit_in_turns(node, {"b": 1, "a": 1}, settles, size)
        await node.confirmed(position)
        if number == 4:
            node = await node.restart()
    await node.confirmed(position)
    return node
