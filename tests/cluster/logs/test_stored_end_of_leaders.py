"""A leader that has flushed less than the one before it does not tell readers of an earlier end."""

from __future__ import annotations

from pathlib import Path

from cluster.brokers.mirrored_brokers import mirrored_brokers
from cluster.brokers.test_brokers import client
from support.log_service import contents, http_logs
from support.pika_client import PERSISTENT

from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange

LOG = LogPartition("/", "log", 0)
BODIES = [b"message %d" % number for number in range(10)]
NEVER = "3600"  # a flush by time: a backup makes one of the leader


def test_what_the_leader_before_had_stored_is_stored_before_readers_are_answered(
    tmp_path: Path,
) -> None:
    with mirrored_brokers(tmp_path, ROUTELOG_FLUSH_SECONDS=NEVER) as cluster:
        cluster.until_led(in_sync=3)
        leader = cluster.leader()
        channel = client(leader).channel()
        channel.confirm_delivery()
        channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        for body in BODIES:
            channel.basic_publish("", "log", body, PERSISTENT)
        target, data = str(tmp_path / "backups"), str(leader.data_dir)
        asked = cluster.command("backup", target, "--name", "one", "--data-dir", data)
        assert asked.returncode == 0, asked.stderr
        whole = OffsetRange(LOG, 0, len(BODIES), 0)
        stored = list(enumerate(BODIES))
        assert contents(http_logs(leader), whole) == stored
        leader.kill()
        cluster.until_led(in_sync=2)
        logs = http_logs(cluster.leader())
        assert logs.extents(LOG)[-1].end == len(BODIES)
        assert contents(logs, whole) == stored
