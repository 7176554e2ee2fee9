"""`python -m cluster`: how long nothing is confirmed when the leader of three nodes fails.

Each line is one run: seconds from the fault to the first confirm under the next leader. With `--seconds 60`
faults of all kinds are drawn from `--seed` instead, and at the end nothing that was confirmed is missing.
"""

import argparse
import asyncio
import signal
import tempfile
import time
from datetime import datetime
from pathlib import Path

import msgspec
from cluster.faults.node_faults import NodeFaults
from cluster.nodes.node_processes import NodeCluster, node_cluster

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
PAUSE_SECONDS = 1.0  # of steady work before each fault


async def failover(cluster: NodeCluster, fault: signal.Signals) -> float:
    """Hurt the leader, measure, and heal."""
    await asyncio.sleep(PAUSE_SECONDS)
    leader, epoch = await cluster.leader(), cluster.epoch()
    began = time.monotonic()
    leader.signal(fault)
    seconds = await cluster.until_confirmed(epoch) - began
    leader.signal(signal.SIGCONT)
    await cluster.until_well()
    return seconds


async def main() -> None:
    """What the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--fault", choices=SIGNALS, default="kill")
    parser.add_argument("--seconds", type=float, help="of faults of all kinds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--etcd", type=int, default=1, help="members")
    parser.add_argument("--folder", type=Path, help="where logs and data are kept")
    parser.add_argument("--options", default="{}", help="JSON: of `node_program`")
    arguments = parser.parse_args()
    options = msgspec.json.decode(arguments.options)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        async with node_cluster(
            folder, arguments.shards, members=arguments.etcd, **options
        ) as cluster:
            cluster.publish()
            await cluster.until_confirmed(0)
            if arguments.seconds:
                await survive(cluster, arguments.seconds, arguments.seed)
            else:
                await measure(cluster, arguments.runs, SIGNALS[arguments.fault])


async def measure(cluster: NodeCluster, runs: int, fault: signal.Signals) -> None:
    """One fault after another, each healed before the next."""
    found = []
    for run in range(runs):
        found.append(await failover(cluster, fault))
        now = datetime.now().astimezone()
        print(f"{now:%H:%M:%S}  {run + 1:3}  {found[-1]:.2f} s", flush=True)
    await cluster.check()
    found.sort()
    print(f"p50 {found[len(found) // 2]:.2f} s, max {found[-1]:.2f} s")


async def survive(cluster: NodeCluster, seconds: float, seed: int) -> None:
    """Faults that overlap, then peace, and a look at everything."""
    faults = NodeFaults(cluster, seed)
    await faults.strike(seconds)
    print(f"seed {seed}: {', '.join(faults.struck)}", flush=True)
    await cluster.check()
    confirmed = sum(map(len, cluster.confirmed))
    print(f"{confirmed:,} confirmed, none lost; {cluster.epoch()} epochs", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
