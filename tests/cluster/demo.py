"""The demo of a cluster: three nodes, a queue under load, and what goes wrong in a bad minute.

`make demo-cluster`. Exit status: 0 when nothing that was confirmed is lost or doubled and all nodes have the
same, 1 when not, 2 when the demo could not run, 130 after Ctrl-C.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers
from cluster.brokers.queue_load import QueueLoad
from cluster.brokers.verdict import Verdict
from cluster.node_networks import NodeNetworks, NoNetworks, node_networks
from rich.console import Console
from rich.table import Table
from support.broker_process import BrokerFailed, BrokerProcess

CALM_SECONDS = 5.0  # of load before each fault
FAULT_SECONDS = 5.0  # until it is healed: longer than a lease
DRAIN_SECONDS_MAX = 60.0
JOURNAL = {"ROUTELOG_JOURNAL_FILE_BYTES": str(64 * 2**20)}  # the default, as a broker has it
IDLE_SECONDS = 2.0  # in which the followers hear what is committed


class Demo:
    """The faults in order, each with a line of the timeline."""

    def __init__(self, cluster: MirroredBrokers, console: Console) -> None:
        self._cluster = cluster
        self._console = console
        self._load = QueueLoad({name: each.url for name, each in cluster.brokers.items()})
        self._begun = time.monotonic()
        self._faults: list[float] = []
        self._lost = 0  # connections with nodes where nothing was wrong
        self._is_equal = False  # says `cluster verify`

    async def run(self) -> None:
        """Everything, up to a quiet cluster whose queue is empty."""
        self._say(
            "three nodes are in sync: clients publish to all, with confirms, and take from all"
        )
        self._load.start()
        await self._kill_the_leader()
        await self._cut_off_the_leader()
        await self._wipe_a_follower()
        await asyncio.sleep(CALM_SECONDS)
        await self._verify()
        await self._load.stop_publishing()
        await self._load.drain(DRAIN_SECONDS_MAX)
        await self._until_in_sync()
        self._say("publishers have stopped, and the queue is empty")
        await asyncio.sleep(IDLE_SECONDS)

    async def end(self) -> None:
        """End all clients."""
        await self._load.stop()

    def judge(self) -> bool:
        """Hold the ledger against the logs of the nodes, which are stopped; whether all is as it must be."""
        load = self._load
        directories = {name: each.data_dir for name, each in self._cluster.brokers.items()}
        verdict = Verdict.of(load, directories, self._faults)
        table = Table(
            "", "found", title=f"{len(load.ledger.told):,} published", title_justify="left"
        )
        for name, found in (
            ("confirmed", load.confirmed),
            ("confirmed, not delivered", verdict.lost),
            ("confirmed, not in the log of every node", verdict.missing),
            ("twice in a log", verdict.doubled),
            ("delivered again, not marked as redelivered", verdict.unmarked),
            ("the same, around a fault", verdict.late),
        ):
            table.add_row(name, f"{len(found):,}")
        table.add_row("connections lost with the other nodes", f"{self._lost:,}")
        for name, digest in verdict.digests.items():
            table.add_row(f"digest of {name}", f"{digest:08x}")
        self._console.print(table)
        for fault in verdict.faults:
            self._console.print(fault, style="bold red", markup=False)
        is_well = self._is_equal and not self._lost and not verdict.faults
        self._console.print("demo: all equal" if is_well else "demo: not as it must be")
        return is_well

    # -- faults

    async def _kill_the_leader(self) -> None:
        name, leader = await self._leader()
        await asyncio.sleep(CALM_SECONDS)
        self._say(f"SIGKILL: {name}, which leads")
        killed = time.monotonic()
        leader.kill()
        await self._taken_over(name, killed)
        await asyncio.to_thread(leader.start)
        self._say(f"{name} runs again")
        await self._until_in_sync()

    async def _cut_off_the_leader(self) -> None:
        name, leader = await self._leader()
        await asyncio.sleep(CALM_SECONDS)
        cut, heal, how = self._cut(name, leader)
        self._say(f"{how}: {name}, which leads")
        began = time.monotonic()
        cut()
        await self._taken_over(name, began)
        heal()
        self._say(f"{name} is back")
        await self._until_in_sync()

    def _cut(
        self, name: str, leader: BrokerProcess
    ) -> tuple[Callable[[], None], Callable[[], None], str]:
        networks = self._cluster.networks
        if networks is not None:
            return lambda: networks.cut_off(name), networks.heal, "cut off from all"
        return (
            lambda: leader.signal(signal.SIGSTOP),
            lambda: leader.signal(signal.SIGCONT),
            "SIGSTOP",
        )

    async def _wipe_a_follower(self) -> None:
        leader, _ = await self._leader()
        name, follower = next(each for each in self._cluster.brokers.items() if each[0] != leader)
        await asyncio.sleep(CALM_SECONDS)
        follower.kill()
        await asyncio.to_thread(shutil.rmtree, follower.data_dir)
        self._say(f"SIGKILL, and its data directory wiped: {name}, which follows")
        await asyncio.to_thread(follower.start)
        self._say(f"{name} runs again, with nothing")
        await asyncio.sleep(FAULT_SECONDS)  # it is another member, and not in sync any more
        await self._until_in_sync()

    async def _verify(self) -> None:
        told, code = await asyncio.to_thread(self._cluster.ask, "verify")
        self._say(f"cluster verify: {told.get('summary', 'no answer')}")
        self._is_equal = code == 0

    # -- what happens

    async def _leader(self) -> tuple[str, BrokerProcess]:
        leader = await asyncio.to_thread(self._cluster.leader)
        return next(each for each in self._cluster.brokers.items() if each[1] is leader)

    async def _taken_over(self, before: str, since: float) -> None:
        self._faults.append(since)
        session = await self._load.until_confirmed(since)
        seconds = session.confirmed - since
        name, _ = await self._leader()
        self._say(f"first confirm after {seconds:.2f} s, through {session.node}: {name} leads")
        await asyncio.sleep(FAULT_SECONDS)
        sessions = [each for each in self._load.rounds.sessions if each.node != before]
        lost = sum(each.lost > since for each in sessions)
        kept = sum(not (each.lost or each.is_over) for each in sessions)
        self._lost += lost
        self._say(f"the other nodes have kept {kept} connections, and lost {lost}")

    async def _until_in_sync(self) -> None:
        await asyncio.to_thread(self._cluster.until_led, in_sync=len(NODES))
        self._say("all nodes are in sync")

    def _say(self, text: str) -> None:
        line = f"{time.monotonic() - self._begun:6.1f} s  {len(self._load.confirmed):7,}  {text}"
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


async def run(cluster: MirroredBrokers, console: Console) -> bool:
    """The demo over nodes that are in sync; whether all is as it must be."""
    console.print("    time  confirmed", style="bold", highlight=False)
    demo = Demo(cluster, console)
    try:
        await demo.run()
    finally:
        await demo.end()
        cluster.stop()
    return demo.judge()


def networks_or_none(stack: ExitStack, console: Console) -> NodeNetworks | None:
    """Networks for the nodes until the stack is closed; None, said in a line, where there can be none."""
    try:
        return stack.enter_context(node_networks(NODES))
    except NoNetworks as error:
        console.print(f"no network namespaces here ({error}): SIGSTOP stands for the cut")
        return None


def main() -> int:
    """Start three nodes, let things go wrong, and judge."""
    console = Console()
    logging.disable()  # the client library complains of each connection that is cut
    # A polite kill ends as Ctrl-C does: children first.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="routelog-demo-")))
        cluster = MirroredBrokers(folder, JOURNAL, networks_or_none(stack, console))
        stack.callback(cluster.stop)
        try:
            with console.status("three nodes are starting, each with an etcd"):
                cluster.start()
                cluster.until_led(in_sync=len(NODES))
            return 0 if asyncio.run(run(cluster, console)) else 1
        except (AssertionError, BrokerFailed, TimeoutError) as error:
            log = Path("demo-cluster.log")
            log.write_text(cluster.log_text())
            console.print(f"demo: could not run: {error!r:.200}; the nodes' log is in {log}")
            return 2
        except KeyboardInterrupt:
            console.print("demo: interrupted, nothing is left running")
            return 130


if __name__ == "__main__":
    sys.exit(main())
