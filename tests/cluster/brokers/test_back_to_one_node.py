"""A node of a cluster goes on without it, and so does a backup of one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pika
import pytest
from cluster.brokers.mirrored_brokers import mirrored_brokers
from cluster.brokers.test_brokers import client, drained, publish
from support.broker_process import BrokerProcess
from typer.testing import CliRunner

from routelog.__main__ import command_line

BEFORE = ["of three", "of two"]


class EndedCluster(NamedTuple):
    """What is left of one that has had more epochs than its last leader has had starts."""

    data_dir: Path
    backup: Path


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> EndedCluster:
    folder = tmp_path_factory.mktemp("cluster")
    with mirrored_brokers(folder) as cluster:
        cluster.until_led(in_sync=3)
        publish(cluster.brokers["a"], "of three")
        cluster.leader().kill()
        last = cluster.leader()
        publish(last, "of two")
        client(last).channel().queue_declare("fleeting")
        run("backup", folder / "backup", "--data-dir", last.data_dir)
    return EndedCluster(last.data_dir, folder / "backup")


def run(*command: object) -> None:
    """One of `routelog`."""
    done = CliRunner().invoke(command_line, list(map(str, command)))
    assert done.exit_code == 0, (done.stdout, done.stderr)


@pytest.mark.long
def test_a_node_of_a_cluster_goes_on_alone_with_everything(ended: EndedCluster) -> None:
    alone = BrokerProcess(ended.data_dir)
    try:
        alone.start()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
            client(alone).channel().queue_declare("fleeting", passive=True)
        publish(alone, "of one")
        alone.kill()
        alone.start()
        assert drained(alone) == [*BEFORE, "of one"]
    finally:
        alone.stop()


@pytest.mark.long
def test_a_backup_goes_on_alone_and_as_the_first_node_of_a_new_cluster(
    ended: EndedCluster, tmp_path: Path
) -> None:
    run("restore", ended.backup, tmp_path / "a")
    alone = BrokerProcess(tmp_path / "a", {"ROUTELOG_NODE_NAME": "a@test"})
    try:
        alone.start()
        for body in ("1", "2"):
            publish(alone, body)
            alone.kill()
            alone.start()
        assert alone.terminate() == 0
    finally:
        alone.stop()
    with mirrored_brokers(tmp_path) as cluster:
        assert cluster.until_led(in_sync=3)["leader"] == "a@test"
        publish(cluster.brokers["b"], "3")
        cluster.brokers["a"].kill()
        assert drained(cluster.brokers["c"]) == [*BEFORE, "1", "2", "3"]


@pytest.mark.long
def test_who_follows_a_node_that_ran_on_its_own_begins_with_a_copy(tmp_path: Path) -> None:
    alone = BrokerProcess(tmp_path / "a", {"ROUTELOG_NODE_NAME": "a@test"})
    try:
        alone.start()
        publish(alone, "1")
        alone.kill()  # its journal still has everything
    finally:
        alone.stop()
    with mirrored_brokers(tmp_path) as cluster:
        assert cluster.until_led(in_sync=3)["leader"] == "a@test"
        for name in ("b", "c"):
            assert "a copy of a@test's checkpoint is whole" in cluster.brokers[name].log_text()
        cluster.brokers["a"].kill()
        assert drained(cluster.brokers["c"]) == ["1"]
