"""A node of a cluster goes on without it."""

from __future__ import annotations

from pathlib import Path

from broker_process import BrokerProcess
from cluster.brokers.mirrored_brokers import mirrored_brokers
from cluster.brokers.test_brokers import drained, publish


def test_a_node_of_a_cluster_goes_on_alone_with_everything(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path) as cluster:
        cluster.until_led(in_sync=3)
        publish(cluster.brokers["a"], "of three")
        cluster.leader().kill()  # so that the cluster has had more epochs than the next node has had starts
        last = cluster.leader()
        publish(last, "of two")
    alone = BrokerProcess(last.data_dir)
    try:
        alone.start()
        publish(alone, "of one")
        alone.kill()
        alone.start()
        assert drained(alone) == ["of three", "of two", "of one"]
    finally:
        alone.stop()
