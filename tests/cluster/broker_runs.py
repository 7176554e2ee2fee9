"""`python -m cluster.broker_runs`: whole brokers, hurt while clients publish and take.

Without `--seconds` each line is one run: seconds from the fault at the leader to the first confirm through
another node. With it, faults are drawn from `--seed`. At the end the logs of all nodes are held against what
clients were told. The nodes have networks of their own, unless only groups without `network` are asked for.
"""

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from cluster.brokers.lanes import DURABLE, LANES, Lane
from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers
from cluster.brokers.queue_load import QueueLoad
from cluster.brokers.verdict import Verdict, missing_in_backup
from cluster.faults.broker_faults import GROUPS, BrokerFaults
from cluster.node_networks import NodeNetworks, NoNetworks, node_networks

PAUSE_SECONDS = 2.0  # of steady work before each fault
DRAIN_SECONDS_MAX = 60.0
IDLE_SECONDS = 2.0  # in which the followers hear what is committed
JOURNAL = {"ROUTELOG_JOURNAL_FILE_BYTES": str(64 * 2**20)}  # the default, as a broker has it


class Run:
    """One cluster and one load.

    Attributes:
        faults: when something went wrong.
        backups: what was confirmed before each began.
    """

    def __init__(self, cluster: MirroredBrokers, lanes: Sequence[Lane]) -> None:
        self.faults: list[float] = []
        self.backups: dict[Path, set[int]] = {}
        self._cluster = cluster
        self.load = QueueLoad({name: each.url for name, each in cluster.brokers.items()}, lanes)

    async def measure(self, runs: int, fault: str) -> None:
        """One fault at the leader after another, each healed before the next."""
        found = []
        for run in range(runs):
            found.append(await self._failover(fault))
            now = datetime.now().astimezone()
            print(f"{now:%H:%M:%S}  {run + 1:3}  {found[-1]:.2f} s", flush=True)
        found.sort()
        p99 = found[min(runs - 1, runs * 99 // 100)]
        print(f"p50 {found[runs // 2]:.2f} s, p99 {p99:.2f} s, max {found[-1]:.2f} s")

    async def _failover(self, fault: str) -> float:
        leader = await asyncio.to_thread(self._cluster.leader)
        (name,) = (name for name, each in self._cluster.brokers.items() if each is leader)
        await asyncio.sleep(PAUSE_SECONDS)
        began = time.monotonic()
        self.faults.append(began)
        networks = self._cluster.networks
        if fault == "cut":
            assert networks is not None
            networks.cut_off(name)
        else:
            leader.signal(signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
        session = await self.load.until_confirmed(began)
        self.faults.append(time.monotonic())
        if networks is not None:
            networks.heal()
        leader.signal(signal.SIGCONT)
        if fault == "kill":
            leader.kill()
            await asyncio.to_thread(leader.start)
        await self.until_in_sync()
        return session.confirmed - began

    async def survive(self, seconds: float, seed: int, groups: Sequence[str], folder: Path) -> None:
        """Faults that overlap, then peace."""
        self.load.ledger.mind_early = "clock" not in groups
        faults = BrokerFaults(self._cluster, self.load, seed, groups=groups, folder=folder)
        self.faults = faults.times
        self.backups = faults.operator.backups
        try:
            await faults.strike(seconds)
            await faults.heal()
        finally:
            print(f"seed {seed}: {', '.join(faults.struck)}", flush=True)
        healed = time.monotonic()
        await self.until_in_sync()
        print(f"in sync {time.monotonic() - healed:.1f} s after healing", flush=True)

    async def until_in_sync(self) -> None:
        """Wait until there is a leader, and all nodes have everything."""
        await asyncio.to_thread(self._cluster.until_led, in_sync=len(NODES))

    async def end(self) -> None:
        """Take what is left in the queue, and wait until nothing happens any more."""
        await self.load.stop_publishing()
        try:
            await self.load.drain(DRAIN_SECONDS_MAX)
        except TimeoutError:
            self.load.ledger.wrong.append(f"not drained in {DRAIN_SECONDS_MAX:g} s")
            for refusal, count in self.load.rounds.refusals.most_common(12):
                print(f"{count:6}  {refusal}", flush=True)
        await self.until_in_sync()
        await asyncio.sleep(IDLE_SECONDS)


async def work(run: Run, arguments: argparse.Namespace, folder: Path) -> None:
    """What the arguments ask for."""
    run.load.start()
    try:
        await run.load.until_confirmed(0)
        if arguments.seconds:
            seconds, seed = arguments.seconds, arguments.seed
            await run.survive(seconds, seed, arguments.groups, folder)
        else:
            await run.measure(arguments.runs, arguments.fault)
        await run.end()
    finally:
        await run.load.stop()


def main() -> int | str:
    """One run; exit status 1 if something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--fault", choices=("kill", "stop", "cut"), default="kill")
    parser.add_argument("--seconds", type=float, help="of faults of all kinds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--groups", nargs="+", choices=GROUPS, default=GROUPS, help="of kinds; default: all"
    )
    parser.add_argument(
        "--lanes", nargs="+", choices=LANES, default=list(LANES), help="of queues; default: all"
    )
    parser.add_argument("--folder", type=Path, help="where data and the nodes' log are kept")
    arguments = parser.parse_args()
    logging.disable()  # the client library complains of each connection that is cut
    try:
        with ExitStack() as stack:
            temporary = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            networks = None
            if "network" in arguments.groups or arguments.fault == "cut":
                networks = stack.enter_context(node_networks(NODES))
            verdict, load = hurt(arguments.folder or temporary, networks, arguments)
    except NoNetworks as error:
        return f"no network namespaces here: {error}"
    print(
        f"{len(load.confirmed):,} confirmed, {load.ledger.deliveries.total():,} delivered, "
        f"{len(verdict.late)} again without a mark around a fault"
    )
    for fault in verdict.faults:
        print(fault)
    return 1 if verdict.faults else 0


def hurt(
    folder: Path, networks: NodeNetworks | None, arguments: argparse.Namespace
) -> tuple[Verdict, QueueLoad]:
    """Start the brokers, do what the arguments ask for, and judge."""
    folder.mkdir(exist_ok=True)
    cluster = MirroredBrokers(folder, JOURNAL, networks, is_hurt=bool(arguments.seconds))
    try:
        cluster.start()
        cluster.until_led(in_sync=len(NODES))
        lanes = [LANES[name] for name in arguments.lanes] if arguments.seconds else [DURABLE]
        run = Run(cluster, lanes)
        asyncio.run(work(run, arguments, folder))
    finally:
        cluster.stop()
        (folder / "nodes.log").write_text(cluster.log_text())
    directories = {name: each.data_dir for name, each in cluster.brokers.items()}
    for target, confirmed in run.backups.items():
        restored = target.with_suffix(".restored")
        done = cluster.command("restore", str(target), str(restored))
        if done.returncode:
            run.load.ledger.wrong.append(f"a backup cannot be restored: {done.stderr}")
        else:
            missing_in_backup(run.load, restored, confirmed)
    return Verdict.of(run.load, directories, run.faults), run.load


if __name__ == "__main__":
    sys.exit(main())
