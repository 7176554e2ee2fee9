"""Where a round's time goes, of three nodes and of one on its own: from a message's arrival to its confirm.

    python -m routelog.benchmarks.studies.replication --seconds 3 --peer rabbitmq

Prints rates and processor time, then how long a block of the journal spends in each step, p50 and p90 in ms. A
block is a round: what gathers while the one before it is written. Steps of followers are those of the follower
that was last. Before it, the disk alone: writers beside each other, each syncs a block of that size. Behind it,
what a message takes by way of a follower; with a peer, rate and processor time of three nodes of RabbitMQ with
a quorum queue.
"""

import argparse
import contextlib
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from routelog.benchmarks.brokers.broker_process import Broker, routelog
from routelog.benchmarks.brokers.mirrored_nodes import mirrored_nodes
from routelog.benchmarks.brokers.processor_clock import processor_clock
from routelog.benchmarks.brokers.rabbitmq_cluster import rabbitmq_cluster
from routelog.benchmarks.perf.latency import measure_latency
from routelog.benchmarks.perf.throughput import between
from routelog.benchmarks.studies import traced_node as steps
from routelog.benchmarks.traffic.endpoint import Endpoint
from routelog.benchmarks.traffic.run import CpuSeconds, Sample, started
from routelog.benchmarks.traffic.workload import Workload

TRACED = "routelog.benchmarks.studies.traced_node"
DISK_FILE_BYTES = 64 * 1024 * 1024
HOP_RATE = 1_000  # messages a second
HOP_ROUNDS = 3

Times = Mapping[str, float]  # of one block on one node, by step, in seconds


@dataclass(frozen=True)
class Block:
    """What one node did with a block.

    Args:
        size: bytes of its entries.
    """

    at: Times
    size: int


def blocks_of(trace: str) -> dict[int, Block]:
    """The blocks of a node by position, from the lines that `traced_node` wrote.

    `committed` and `confirmed` are told of the last of several blocks: those before it get its times.
    """
    at: dict[int, dict[str, float]] = {}
    sizes: dict[int, int] = {}
    done = {steps.COMMITTED: 0, steps.CONFIRMED: 0, steps.ACKNOWLEDGED: 0}
    for line in trace.splitlines():
        step, *numbers = line.split(" ")
        position, nanoseconds, size = map(int, numbers)
        first = done.get(step, position - 1) + 1
        if step in done:
            done[step] = max(done[step], position)
        for each in range(first, position + 1):
            at.setdefault(each, {}).setdefault(step, nanoseconds / 1e9)
        if size:
            sizes[position] = size
    return {position: Block(times, sizes.get(position, 0)) for position, times in at.items()}


@dataclass(frozen=True)
class Round:
    """The parts of the time that a block took, in seconds by name, in order."""

    parts: Mapping[str, float]
    size: int


def alone_round(block: Block) -> Round | None:
    """Of a node on its own; None: not all of it was seen."""
    at = block.at
    if not {steps.GATHER, steps.WRITE, steps.SYNCED, steps.TOLD, steps.CONFIRMED} <= at.keys():
        return None
    parts = {
        "gathered": at[steps.WRITE] - at[steps.GATHER],
        "written, synced": at[steps.SYNCED] - at[steps.WRITE],
        "told": at[steps.TOLD] - at[steps.SYNCED],
        "confirmed": at[steps.CONFIRMED] - at[steps.TOLD],
        "round": at[steps.CONFIRMED] - at[steps.GATHER],
    }
    return Round(parts, block.size)


def mirrored_round(leader: Block, followers: Sequence[Block]) -> Round | None:
    """Of a leader and its followers; None: not all of it was seen."""
    at = leader.at
    own = {steps.GATHER, steps.TAKE, steps.ENCODED, steps.SHIPPED, steps.SYNCED, steps.COMMITTED}
    theirs = {steps.STORED, steps.WRITE, steps.SYNCED, steps.ACKNOWLEDGED}
    if not own | {steps.WRITE, steps.CONFIRMED} <= at.keys():
        return None
    if not all(theirs <= each.at.keys() for each in followers):
        return None
    last = max(followers, key=lambda each: each.at[steps.ACKNOWLEDGED]).at
    parts = {
        "gathered": at[steps.TAKE] - at[steps.GATHER],
        "encoded": at[steps.ENCODED] - at[steps.TAKE],
        "sent": at[steps.SHIPPED] - at[steps.ENCODED],
        "leader: waited for its disk": at[steps.WRITE] - at[steps.SHIPPED],
        "leader: written, synced": at[steps.SYNCED] - at[steps.WRITE],
        "follower: received": last[steps.STORED] - at[steps.SHIPPED],
        "follower: waited for its disk": last[steps.WRITE] - last[steps.STORED],
        "follower: written, synced": last[steps.SYNCED] - last[steps.WRITE],
        "follower: acknowledged": last[steps.ACKNOWLEDGED] - last[steps.SYNCED],
        "committed": at[steps.COMMITTED] - last[steps.ACKNOWLEDGED],
        "confirmed": at[steps.CONFIRMED] - at[steps.COMMITTED],
        "round": at[steps.CONFIRMED] - at[steps.GATHER],
    }
    return Round(parts, leader.size)


def _within(blocks: Mapping[int, Block], begin: float, end: float) -> list[int]:
    """Positions of blocks that began to gather within a time."""
    return [
        position
        for position, block in blocks.items()
        if begin <= block.at.get(steps.GATHER, 0.0) < end
    ]


def _print_rounds(rounds: Sequence[Round], seconds: float) -> None:
    if not rounds:
        print("no round was seen whole")
        return
    size = statistics.mean(each.size for each in rounds)
    print(f"{len(rounds) / seconds:,.0f} blocks a second of {size / 1024:,.0f} KiB")
    print("| step | p50, ms | p90, ms |")
    print("|---|---:|---:|")
    for name in rounds[0].parts:
        times = sorted(each.parts[name] * 1e3 for each in rounds)
        print(f"| {name} | {statistics.median(times):.2f} | {times[len(times) * 9 // 10]:.2f} |")


def _clocks(nodes: Mapping[str, Broker]) -> dict[str, CpuSeconds]:
    # Of the brokers, without their etcd.
    found: dict[str, CpuSeconds] = {}
    for name, node in nodes.items():
        assert node.session is not None
        clock = processor_clock(node.session, Endpoint.parse(node.uri))
        assert clock is not None
        found[name] = clock
    return found


def _loaded(
    uri: str, workload: Workload, given: argparse.Namespace, clocks: Mapping[str, CpuSeconds]
) -> tuple[Sample, Sample]:
    """Run the workload, and print its rate, and what each node took for a message."""
    with started(uri, workload) as run:
        if workload.consumers:
            run.start_consumers()
        run.start_producers()
        run.go()
        run.until(lambda: run.sample().confirmed > 0)
        run.sleep(given.warm_up)
        used = {name: clock() for name, clock in clocks.items()}
        before = run.sample()
        run.sleep(given.seconds)
        after = run.sample()
        used = {name: clocks[name]() - each for name, each in used.items()}
        run.finish()
    found = between(before, after, 0.0)
    confirmed = max(1, after.confirmed - before.confirmed)
    cost = ", ".join(f"{name} {each / confirmed * 1e6:.2f}" for name, each in used.items())
    total = sum(used.values()) / confirmed * 1e6
    print(f"{found.confirmed:,.0f} confirms a second; processor: {total:.2f} µs ({cost})")
    return before, after


def measure_mirrored(folder: Path, workload: Workload, given: argparse.Namespace) -> None:
    """Three nodes."""

    def program(name: str) -> Sequence[str]:
        return TRACED, str(folder / f"{name}.trace")

    with mirrored_nodes(folder, program=program) as (leader, nodes):
        follower = next(name for name in nodes if name != leader)
        asked = leader if given.at == "leader" else follower
        print(f"{leader} leads, clients are connected with {asked}")
        before, after = _loaded(nodes[asked].uri, workload, given, _clocks(nodes))
    traces = {name: blocks_of((folder / f"{name}.trace").read_text()) for name in nodes}
    own = traces.pop(leader)
    rounds = [
        found
        for position in _within(own, before.seconds, after.seconds)
        if all(position in each for each in traces.values())
        and (found := mirrored_round(own[position], [each[position] for each in traces.values()]))
    ]
    _print_rounds(rounds, after.seconds - before.seconds)


def measure_hop(folder: Path, given: argparse.Namespace) -> None:
    """Latency of deliveries to and from a follower, beside those at the leader."""
    workload = Workload(body_bytes=given.size)
    found: dict[str, list[float]] = {"leader": [], "follower": []}
    with mirrored_nodes(folder) as (leader, nodes):
        follower = next(name for name in nodes if name != leader)
        for name in ("leader", "follower") * HOP_ROUNDS:
            uri = nodes[leader if name == "leader" else follower].uri
            measured = measure_latency(uri, workload, HOP_RATE, given.warm_up, given.seconds)
            found[name].append(measured.delivered.p50 * 1e6)
    medians = {name: statistics.median(each) for name, each in found.items()}
    print(
        f"p50 at the leader {medians['leader']:.0f} µs, at a follower {medians['follower']:.0f} µs"
    )


def measure_peer(folder: Path, workload: Workload, given: argparse.Namespace) -> None:
    """Three nodes of RabbitMQ with a quorum queue."""
    quorum = replace(workload, queue_arguments=(("x-queue-type", "quorum"),))
    with rabbitmq_cluster(folder) as nodes:
        leader, follower, *_ = nodes
        asked = leader if given.at == "leader" else follower
        _loaded(
            nodes[asked].uri,
            quorum,
            given,
            {name: node.cpu_seconds for name, node in nodes.items()},
        )


def measure_alone(folder: Path, workload: Workload, given: argparse.Namespace) -> None:
    """A node on its own."""
    trace = folder / "alone.trace"
    with routelog(folder, program=(TRACED, str(trace))) as broker:
        before, after = _loaded(broker.uri, workload, given, _clocks({"alone": broker}))
    blocks = blocks_of(trace.read_text())
    rounds = [
        found
        for position in _within(blocks, before.seconds, after.seconds)
        if (found := alone_round(blocks[position]))
    ]
    _print_rounds(rounds, after.seconds - before.seconds)


def measure_disk(folder: Path, seconds: float) -> None:
    """Writers beside each other, each overwrites a file of its own, block by block, each synced."""
    print("| disk alone: block | writers | MB/s in all | p50, ms |")
    print("|---|---:|---:|---:|")
    for size in (64, 256, 800, 4096):
        for count in (1, 3):
            found: list[float] = []
            with contextlib.ExitStack() as stack:
                files = [stack.enter_context(_filled(folder / f"disk-{n}")) for n in range(count)]
                threads = [
                    threading.Thread(target=_write, args=(file, size * 1024, seconds, found))
                    for file in files
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            rate = len(found) * size * 1024 / seconds / 1e6
            print(f"| {size} KiB | {count} | {rate:,.0f} | {statistics.median(found) * 1e3:.2f} |")


@contextlib.contextmanager
def _filled(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(file, bytes(DISK_FILE_BYTES), 0)
        os.fsync(file)
        yield file
    finally:
        os.close(file)
        path.unlink()


def _write(file: int, size: int, seconds: float, found: list[float]) -> None:
    block, at, end = os.urandom(size), 0, time.monotonic() + seconds
    while (begin := time.monotonic()) < end:
        os.pwritev(file, [block], at, os.RWF_DSYNC)
        found.append(time.monotonic() - begin)
        at = (at + size) % (DISK_FILE_BYTES - size)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warm-up", type=float, default=1.0)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--producers", type=int, default=4)
    parser.add_argument("--confirms", type=int, default=200)
    parser.add_argument("--consumers", type=int, default=0)
    parser.add_argument("--each", action="store_true", help="each publish is a write of its own")
    parser.add_argument("--at", choices=("leader", "follower"), default="leader")
    parser.add_argument("--only", choices=("mirrored", "alone", "disk", "hop", "rabbitmq"))
    parser.add_argument("--peer", choices=("rabbitmq",), help="measured in the same run")
    parser.add_argument("--folder", type=Path, help="of the nodes' data; default: below /tmp")
    given = parser.parse_args()
    workload = Workload(
        body_bytes=given.size,
        producers=given.producers,
        consumers=given.consumers,
        durable=True,
        confirms_in_flight=given.confirms,
        ack_every=given.confirms // 2 if given.consumers else 0,
        prefetch=given.confirms if given.consumers else 0,
        each=given.each,
    )
    measures: dict[str, Callable[[Path], None]] = {
        "disk": lambda folder: measure_disk(folder, min(1.0, given.seconds)),
        "alone": lambda folder: measure_alone(folder, workload, given),
        "mirrored": lambda folder: measure_mirrored(folder, workload, given),
        "hop": lambda folder: measure_hop(folder, given),
    }
    if "rabbitmq" in (given.peer, given.only):
        measures["rabbitmq"] = lambda folder: measure_peer(folder, workload, given)
    for name, measure in measures.items():
        if given.only in (None, name):
            print(f"\n{name}")
            with tempfile.TemporaryDirectory(prefix="routelog-", dir=given.folder) as made:
                measure(Path(made))


if __name__ == "__main__":
    main()
