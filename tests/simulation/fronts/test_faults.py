"""The end of all faults of a history."""

from pathlib import Path

import pytest
from simulation.coordinator import ETCD
from simulation.fronts.cluster import FrontsCluster


@pytest.mark.parametrize("way", [(ETCD, "a"), ("a", ETCD), ("a", "b")])
def test_what_is_on_its_way_does_not_arrive_after_the_end(
    tmp_path: Path, way: tuple[str, str]
) -> None:
    cluster = FrontsCluster(1, tmp_path)
    cluster.nodes.clear()
    came: list[str] = []
    cluster.network.duplicate = 1.0
    cluster.network.send(*way, came.append, "before")
    cluster.faults.end()
    cluster.network.send(*way, came.append, "behind")
    cluster.scheduler.run_until(10.0)
    assert came == ["behind"]
