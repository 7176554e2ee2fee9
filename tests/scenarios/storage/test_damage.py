"""A damaged queue: what its clients see, what the tools say, and how it serves again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker
from support.broker_process import ROOT, BrokerFailed, BrokerProcess
from support.pika_client import PERSISTENT, Clients, drain
from support.waiting import wait_until

from routelog.broker.process import log_commands
from routelog.log_backend import partition_report

BODY_BYTES = 2_000
MESSAGES = 200
SEGMENT = {"ROUTELOG_SEGMENT_BYTES": "65536", "ROUTELOG_MEMORY_TAIL_BYTES": "1048576"}


def body(number: int) -> bytes:
    return b"%d " % number + b"x" * BODY_BYTES


def routelog(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "routelog", "log", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def json_lines(*arguments: str) -> list[dict]:
    result = routelog(*arguments, "--json")
    assert result.stderr == ""
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def damaged(fresh_broker):
    """A broker whose queue `hurt` has a flipped byte in its second segment, and a queue `well`."""
    broker: BrokerProcess = fresh_broker(**SEGMENT)
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.confirm_delivery()
    for queue in ("hurt", "well"):
        channel.queue_declare(queue, durable=True)
    for number in range(MESSAGES):
        channel.basic_publish("", "hurt", body(number), PERSISTENT)
    channel.basic_publish("", "well", b"fine", PERSISTENT)
    clients.close()
    broker.terminate()
    paths = sorted((broker.data_dir / "logs").rglob("hurt-0/*.log"))
    assert len(paths) > 4
    content = bytearray(paths[1].read_bytes())
    content[1_000] ^= 1
    paths[1].write_bytes(content)
    yield broker, paths
    broker.stop()


def numbers(bodies: list[bytes]) -> list[int]:
    return [int(each.split()[0]) for each in bodies]


def collect(channel, queue: str, **options) -> tuple[list[bytes], ChannelClosedByBroker]:
    """Consume and acknowledge until the broker closes the channel."""
    found: list[bytes] = []

    def take(ch, method, properties, content) -> None:
        found.append(content)
        ch.basic_ack(method.delivery_tag)

    def consume() -> None:
        channel.basic_qos(prefetch_count=30)
        channel.basic_consume(queue, take, **options)
        channel.start_consuming()

    with pytest.raises(ChannelClosedByBroker) as raised:
        consume()
    return found, raised.value


def test_a_damaged_queue_gives_what_lies_before_and_then_a_clear_error(damaged) -> None:
    broker, paths = damaged
    broker.start()
    clients = Clients(broker.url)
    found, error = collect(clients.channel(), "hurt")
    assert numbers(found) == list(range(len(found)))
    assert len(found) >= int(paths[1].stem)
    assert error.reply_code == 541
    assert error.reply_text.startswith("INTERNAL_ERROR - queue 'hurt' in vhost '/' is quarantined")
    assert "routelog log repair" in error.reply_text
    assert f"{paths[1].name} is damaged at byte" in broker.log_text()
    # Again at once, also for basic.get, and nobody else notices.
    assert collect(clients.channel(), "hurt")[0] == []
    with pytest.raises(ChannelClosedByBroker) as raised:
        clients.channel().basic_get("hurt")
    assert raised.value.reply_code == 541
    assert drain(clients.channel(), "well") == [b"fine"]
    # Publishes are taken and confirmed, and stay behind the damage.
    channel = clients.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "hurt", body(MESSAGES), PERSISTENT)
    clients.close()
    broker.terminate()
    result = routelog("repair", str(broker.data_dir), "--yes")
    assert result.returncode == 0
    broker.start()
    clients = Clients(broker.url)
    rest = numbers(drain(clients.channel(), "hurt"))
    lost = set(range(len(found), MESSAGES + 1)) - set(rest)
    assert rest == sorted(rest)
    assert rest[-1] == MESSAGES
    assert lost
    assert max(lost) - min(lost) + 1 == len(lost) < 40
    clients.close()


def test_the_tools_say_what_is_damaged_and_what_a_repair_loses(damaged) -> None:
    broker, paths = damaged
    data = str(broker.data_dir)
    before = snapshot(broker.data_dir)
    result = routelog("verify", data)
    assert result.returncode == 1
    assert "1 damages, 0 notices" in result.stdout
    finding, summary = json_lines("verify", data)
    assert summary["damages"] == 1
    assert (finding["queue"], finding["severity"]) == ("hurt", "damage")
    assert finding["file"] == str(paths[1].relative_to(broker.data_dir))
    (step, *_) = json_lines("repair", data)
    assert step["lost"] == [[finding["first"], finding["end"]]]
    assert snapshot(broker.data_dir) == before, "verify and a dry run change nothing"
    done = routelog("repair", data, "--yes")
    assert done.returncode == 0
    assert "done; what was taken out is in" in done.stdout
    (aside,) = (broker.data_dir / "quarantine").rglob(paths[1].name)
    assert aside.read_bytes() == before[paths[1]]
    assert routelog("verify", data).returncode == 0
    assert routelog("repair", data, "--yes").stdout == "nothing to repair\n"
    broker.start()
    clients = Clients(broker.url)
    lost = set(range(*step["lost"][0]))
    assert numbers(drain(clients.channel(), "hurt")) == sorted(set(range(MESSAGES)) - lost)
    clients.close()


def snapshot(data: Path) -> dict[Path, bytes]:
    folders = (data / "logs", data / "journal")
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in paths}


def test_a_dump_shows_queues_records_and_journal(damaged) -> None:
    broker, _ = damaged
    data = str(broker.data_dir)
    lines = json_lines("dump", data)
    partitions = {line["queue"]: line for line in lines if line["kind"] == "partition"}
    assert set(partitions) == {"hurt", "well"}
    assert partitions["hurt"]["next_offset"] == MESSAGES
    assert sum(each["damaged"] for each in partitions["hurt"]["segments"]) == 1
    (record,) = json_lines("dump", data, "--queue", "well", "--bodies")
    assert (record["offset"], bytes.fromhex(record["body"])) == (0, b"fine")
    records = json_lines("dump", data, "--queue", "hurt", "--from", "150", "--limit", "7")
    assert [each["offset"] for each in records] == list(range(150, 157))
    blocks = json_lines("dump", data, "--journal")
    assert blocks[-1]["position"] == blocks[0]["position"] + len(blocks) - 1
    for arguments in ([], ["--journal"], ["--queue", "well", "--bodies"]):
        result = routelog("dump", data, *arguments)
        assert (result.returncode, result.stderr) == (0, "")
    assert "fine" in result.stdout
    read, write = os.pipe()
    os.close(read)  # as `head` does when it has seen enough
    command = [sys.executable, "-m", "routelog", "log", "dump", data, "--json"]
    with os.fdopen(write) as pipe:
        cut = subprocess.run(command, cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (cut.returncode, cut.stderr) == (1, b"")


def test_a_dump_prints_what_it_has_read_before_it_reads_on(
    damaged, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broker, _ = damaged
    printed: list[str] = []
    done: list[int] = []

    def report(data, partition, progress):
        printed.append(capsys.readouterr().out)
        return partition_report(data, partition, lambda size: (progress(size), done.append(size)))

    monkeypatch.setattr(log_commands, "partition_report", report)
    log_commands.dump(broker.data_dir)
    heading, row = printed
    assert heading.startswith("queue")
    assert row.startswith("/: hurt ")
    assert "/: well " in capsys.readouterr().out
    assert sum(done) == sum(path.stat().st_size for path in broker.data_dir.rglob("logs/*/*/*.log"))


def test_the_tools_refuse_with_one_line(damaged, tmp_path: Path) -> None:
    broker, _ = damaged
    nothing = tmp_path / "nothing"
    for command in ("dump", "verify", "repair"):
        result = routelog(command, str(nothing))
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.endswith("is no data directory of a broker: it has no LOCK\n")
    assert not nothing.exists()
    result = routelog("dump", str(broker.data_dir), "--queue", "none")
    assert result.returncode == 2
    assert "no durable queue 'none' in vhost '/'" in result.stderr
    result = routelog("dump", str(broker.data_dir), "--queue", "well", "--partition", "7")
    assert "no partition 7 of queue 'well' in vhost '/'" in result.stderr
    broker.start()
    for command in ("dump", "verify", "repair"):
        result = routelog(command, str(broker.data_dir))
        assert (result.returncode, result.stderr.count("\n")) == (2, 1)
        assert "LOCK is held: stop the broker" in result.stderr


def test_a_stream_is_read_up_to_its_damage(fresh_broker) -> None:
    broker: BrokerProcess = fresh_broker(**SEGMENT)
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.confirm_delivery()
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    for number in range(MESSAGES):
        channel.basic_publish("", "s", body(number), PERSISTENT)
    clients.close()
    broker.terminate()
    path = sorted((broker.data_dir / "logs").rglob("*.log"))[1]
    content = bytearray(path.read_bytes())
    content[1_000] ^= 1
    path.write_bytes(content)
    broker.start()
    clients = Clients(broker.url)
    found, error = collect(clients.channel(), "s", arguments={"x-stream-offset": "first"})
    assert numbers(found) == list(range(len(found)))
    assert len(found) >= int(path.stem)
    assert error.reply_code == 541
    clients.close()


def test_the_scrub_finds_damage_that_nobody_reads(damaged) -> None:
    broker, paths = damaged
    broker.start()
    wait_until(lambda: "quarantined: " in broker.log_text())
    assert f"{paths[1].name} is damaged at byte" in broker.log_text()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_purge("hurt")
    channel.basic_publish("", "hurt", b"new", pika.BasicProperties(delivery_mode=2))
    assert drain(channel, "hurt") == [b"new"]
    clients.close()


def test_a_node_of_a_cluster_is_not_repaired_but_copied(damaged) -> None:
    broker, _ = damaged
    broker.kill()
    (broker.data_dir / "incarnation").write_text("1\n")
    asked = routelog("repair", str(broker.data_dir), "--yes")
    assert asked.returncode == 2
    assert "empty it, and the node gets a copy" in asked.stderr
    assert json_lines("repair", str(broker.data_dir))  # what it would do is said


def test_records_and_the_journal_are_not_dumped_at_once(tmp_path) -> None:
    asked = routelog("dump", str(tmp_path), "--journal", "--queue", "q")
    assert asked.returncode == 2
    assert "either --queue or --journal" in asked.stderr


def test_a_damaged_journal_stops_the_start_until_it_is_repaired(fresh_broker) -> None:
    # What a segment has, a damaged journal does not lose.
    broker: BrokerProcess = fresh_broker(ROUTELOG_FLUSH_SECONDS="3600")
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    for number in range(20):
        channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
    clients.close()
    broker.kill()
    lines = json_lines("dump", str(broker.data_dir), "--journal")
    batches = [line for line in lines if any("first" in entry for entry in line["entries"])]
    path = broker.data_dir / "journal" / batches[7]["file"]
    content = bytearray(path.read_bytes())
    content[batches[7]["at"] + 60] ^= 1
    path.write_bytes(content)
    with pytest.raises(Exception, match="is damaged at byte"):
        broker.start()
    assert routelog("verify", str(broker.data_dir)).returncode == 1
    steps = json_lines("repair", str(broker.data_dir), "--yes")
    assert "missing; the whole commits are kept" in steps[0]["what"]
    assert routelog("verify", str(broker.data_dir)).returncode == 0
    broker.start()
    clients = Clients(broker.url)
    found = numbers(drain(clients.channel(), "q"))
    assert found == [number for number in range(20) if number != batches[7]["entries"][0]["first"]]
    clients.close()


def test_the_oldest_segment_and_a_journal_file_are_missed_when_they_are_gone(fresh_broker) -> None:
    broker: BrokerProcess = fresh_broker(**SEGMENT)
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.confirm_delivery()
    channel.queue_declare("hurt", durable=True)
    for number in range(MESSAGES):
        channel.basic_publish("", "hurt", body(number), PERSISTENT)
    clients.close()
    broker.terminate()
    data = str(broker.data_dir)
    oldest, second, *_ = sorted((broker.data_dir / "logs").rglob("hurt-0/*.log"))
    lost = int(second.stem)
    oldest.unlink()
    finding, summary = json_lines("verify", data)
    assert summary["damages"] == 1
    assert (finding["queue"], finding["first"], finding["end"]) == ("hurt", 0, lost)
    assert (Path(finding["file"]).name, finding["reason"]) == (oldest.name, "the file is missing")
    broker.start()
    clients = Clients(broker.url)
    assert collect(clients.channel(), "hurt")[0] == []
    assert f"{oldest.name} is damaged at byte 0: the file is missing" in broker.log_text()
    clients.close()
    broker.terminate()
    newest = max((broker.data_dir / "journal").glob("*.journal"))
    newest.unlink()
    with pytest.raises(BrokerFailed, match=f"{newest.name[:20]}.*the file is missing"):
        broker.start()
    assert routelog("repair", data, "--yes").returncode == 0
    assert routelog("verify", data).returncode == 0
    broker.start()
    clients = Clients(broker.url)
    assert numbers(drain(clients.channel(), "hurt")) == list(range(lost, MESSAGES))
    clients.close()
