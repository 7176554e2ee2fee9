"""A data directory on a file system of 64 MiB: publishers wait at the reserve, and nothing is lost."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from pika.adapters.blocking_connection import BlockingChannel
from scenarios.clients.confirmed_publisher import WINDOW, ConfirmedPublisher, number_of
from scenarios.storage.machine_pauses import MachinePauses
from scenarios.storage.small_disk import (
    FILL_SECONDS_MAX,
    NOTICE_SECONDS_MAX,
    RESERVE_BYTES,
    StartBroker,
    connected,
    fill,
    free_bytes,
    publishing,
    write_ballast,
)
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, declare, drain, ready_count, round_trip
from support.waiting import wait_until
from typer.testing import CliRunner

from routelog.__main__ import command_line


def wait_for_more(publisher: ConfirmedPublisher) -> None:
    """Wait until it has published and more than what was under way is confirmed."""
    confirmed = len(publisher.confirmed)
    wait_until(lambda: len(publisher.confirmed) > confirmed + WINDOW)


def take(channel: BlockingChannel, queue: str) -> list[int]:
    """The numbers of as many messages as there are when it begins."""
    bodies = [
        channel.basic_get(queue, auto_ack=True)[2] for _ in range(ready_count(channel, queue))
    ]
    return [number_of(body) for body in bodies]


def test_publishers_wait_at_the_reserve_and_go_on_when_consumers_have_made_room(
    small_disk: Path, small_broker: StartBroker, pauses: MachinePauses
):
    broker = small_broker()
    with connected(broker) as clients:
        channel = clients.channel()
        declare(channel, "q", durable=True)
        with publishing(broker, "q") as publisher:
            reached_at = 0.0
            deadline = time.monotonic() + FILL_SECONDS_MAX
            while not publisher.blocked:
                if not reached_at and free_bytes(small_disk) < RESERVE_BYTES:
                    reached_at = time.monotonic()
                assert time.monotonic() < deadline
            assert publisher.reasons == ["low on disk"]
            if reached_at:
                noticed = publisher.blocked_at[0] - reached_at
                assert noticed - pauses.since(reached_at) < NOTICE_SECONDS_MAX
            assert free_bytes(small_disk) > RESERVE_BYTES // 2

            # Others connect, declare, consume, acknowledge, purge and delete meanwhile.
            declare(channel, "other", durable=True)
            channel.queue_purge("other")
            channel.queue_delete("other")
            waiting = ready_count(channel, "q")
            assert waiting >= len(publisher.confirmed) > 1_000
            confirmed = len(publisher.confirmed)
            got: list[int] = []
            for deliver, _, body in channel.consume("q"):
                got.append(number_of(body))
                channel.basic_ack(deliver.delivery_tag)
                if publisher.unblocked_at:
                    break
            room_at = time.monotonic()
            noticed = publisher.unblocked_at[0] - room_at
            assert noticed - pauses.since(room_at) < NOTICE_SECONDS_MAX
            channel.cancel()

            # The publisher goes on by itself: with what was under way, and with more.
            wait_until(lambda: len(publisher.confirmed) > confirmed + WINDOW)
        assert not publisher.refused
        got += take(channel, "q")
        assert publisher.confirmed <= set(got)
        assert got == sorted(set(got))
    assert "publishers wait" in broker.log_text()
    assert "is on tmpfs: it is in memory" in broker.log_text()
    assert broker.terminate() == 0


def test_what_others_write_and_remove_blocks_and_unblocks_within_a_second(
    small_disk: Path, small_broker: StartBroker, pauses: MachinePauses
):
    broker = small_broker()
    with connected(broker) as clients:
        channel = clients.channel()
        declare(channel, "q", durable=True)
        with publishing(broker, "q") as publisher:
            wait_until(lambda: len(publisher.confirmed) > 100)
            for leave in (RESERVE_BYTES // 2, 0):
                count = len(publisher.blocked_at)
                ballast = write_ballast(small_disk, leave=leave)
                full_at = time.monotonic()
                wait_until(lambda: publisher.blocked)
                noticed = publisher.blocked_at[count] - full_at
                assert noticed - pauses.since(full_at) < NOTICE_SECONDS_MAX
                assert take(channel, "q")
                ballast.unlink()
                free_at = time.monotonic()
                wait_until(lambda: not publisher.blocked)
                noticed = publisher.unblocked_at[count] - free_at
                assert noticed - pauses.since(free_at) < NOTICE_SECONDS_MAX
                wait_for_more(publisher)
        assert not publisher.refused
    assert broker.terminate() == 0


def test_the_status_command_fails_while_publishers_wait(
    small_disk: Path, small_broker: StartBroker
):
    broker = small_broker()
    assert status(broker).exit_code == 0
    ballast = write_ballast(small_disk, leave=RESERVE_BYTES // 2)
    wait_until(lambda: status(broker).exit_code == 1)
    said = status(broker)
    assert re.search(r"alarms\s+disk", said.stdout)
    assert "alarms in effect" in said.stderr
    ballast.unlink()
    wait_until(lambda: status(broker).exit_code == 0)
    assert broker.terminate() == 0


def status(broker: BrokerProcess) -> Any:
    return CliRunner().invoke(command_line, ["status", "--data-dir", str(broker.data_dir)])


def test_a_kill_while_blocked_loses_nothing_and_the_start_on_the_full_disk_lets_consumers_drain(
    small_disk: Path, small_broker: StartBroker
):
    broker = small_broker()
    with connected(broker) as clients:
        declare(clients.channel(), "q", durable=True)
        with publishing(broker, "q") as publisher:
            fill(publisher)
            broker.kill()
    write_ballast(small_disk, leave=RESERVE_BYTES)
    broker.start()
    with connected(broker) as clients:
        channel = clients.channel()
        with publishing(broker, "q", first=publisher.sent) as later:
            wait_until(lambda: later.blocked)
            assert later.reasons == ["low on disk"]
            assert not later.confirmed
            got = take(channel, "q")
            assert publisher.confirmed <= set(got)
            assert got == sorted(set(got))
            wait_until(lambda: later.confirmed)
            round_trip(channel)
        assert not later.refused
    assert broker.terminate() == 0


def test_a_client_with_its_callbacks_is_told_and_one_that_only_consumes_is_not(
    small_disk: Path, small_broker: StartBroker
):
    broker = small_broker()
    with connected(broker) as clients:
        publisher, consumer = clients.connect(), clients.connect()
        told: list[str] = []
        publisher.add_on_connection_blocked_callback(
            lambda _, frame: told.append(frame.method.reason)
        )
        publisher.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
        consumer.add_on_connection_blocked_callback(lambda *_: told.append("wrong one"))
        channel = publisher.channel()
        declare(channel, "q", durable=True)
        ballast = write_ballast(small_disk, leave=RESERVE_BYTES // 2)
        wait_until(lambda: "publishers wait" in broker.log_text())
        reader = consumer.channel()
        round_trip(channel)  # it has not published yet: it is not held
        assert not told
        channel.basic_publish("", "q", b"held", PERSISTENT)
        wait_until(lambda: told, publisher, consumer)
        assert drain(reader, "q") == []
        ballast.unlink()
        wait_until(lambda: len(told) == 2, publisher, consumer)
        round_trip(channel)
        assert drain(reader, "q") == [b"held"]
        assert told == ["low on disk", "unblocked"]


def test_a_batch_over_http_is_to_come_again_when_the_disk_is_low(
    small_disk: Path, small_broker: StartBroker
):
    broker = small_broker()
    door = ManagementDoor(broker)
    path = "/exchanges/%2F/amq.fanout/publish/batch"
    empty = {"properties": {}, "routing_key": "", "payload": "", "payload_encoding": "string"}
    body = json.dumps([empty]).encode()
    assert door.raw("POST", path, body)[0] == 200
    ballast = write_ballast(small_disk, leave=RESERVE_BYTES // 2)
    wait_until(lambda: door.raw("POST", path, body)[0] == 503)
    _, headers, answer = door.raw("POST", path, body)
    assert (headers["retry-after"], json.loads(answer)["reason"]) == ("1", "publishers wait: disk")
    ballast.unlink()
    wait_until(lambda: door.raw("POST", path, body)[0] == 200)
