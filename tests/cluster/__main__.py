"""`python -m cluster`: how long nothing is confirmed when the leader of three nodes fails.

Each line is one run: seconds from the fault to the first confirm under the next leader.
"""

import argparse
import asyncio
import signal
import tempfile
import time
from datetime import datetime
from pathlib import Path

import msgspec
from cluster.node_processes import NodeCluster, node_cluster

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
    parser.add_argument("--etcd", type=int, default=1, help="members")
    parser.add_argument("--folder", type=Path, help="where logs and data are kept")
    parser.add_argument("--options", default="{}", help="JSON: of `node_program`")
    arguments = parser.parse_args()
    options = msgspec.json.decode(arguments.options)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        async with node_cluster(
            arguments.folder or Path(folder), members=arguments.etcd, **options
        ) as cluster:
            cluster.publish()
            await cluster.until_confirmed(0)
            for run in range(arguments.runs):
                found.append(await failover(cluster, SIGNALS[arguments.fault]))
                now = datetime.now().astimezone()
                print(f"{now:%H:%M:%S}  {run + 1:3}  {found[-1]:.2f} s", flush=True)
            await cluster.check()
    found.sort()
    print(f"p50 {found[len(found) // 2]:.2f} s, max {found[-1]:.2f} s")


if __name__ == "__main__":
    asyncio.run(main())
