"""The commands of docs/migrating-from-rabbitmq.md, run as they stand there between RabbitMQ and a broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from interop.documented.rabbitmq_node import RabbitmqNode, rabbitmq_node
from support.broker_process import ROOT, BrokerProcess
from support.pika_client import PERSISTENT, Clients
from support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.interop,
    pytest.mark.differs_from_rabbitmq("starts a RabbitMQ of its own"),
]

PAGE = ROOT / "docs" / "migrating-from-rabbitmq.md"
BODIES = [b"%d" % number for number in range(50)]
QUEUES = ("orders", "invoices")
MOVED_SECONDS_MAX = 120.0


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitmqNode]:
    with rabbitmq_node(tmp_path_factory.mktemp("moving") / "rabbitmq") as node:
        yield node


@pytest.fixture(scope="module")
def routelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("moved")).start()
    yield process
    process.stop()


def blocks(language: str) -> list[str]:
    """What the page shows in a language, without its indent."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", PAGE.read_text(), re.DOTALL | re.M)
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]


def counts(url: str) -> dict[str, int]:
    """How many messages are ready in the queues."""
    clients = Clients(url)
    channel = clients.channel()
    told = {name: channel.queue_declare(name, passive=True).method.message_count for name in QUEUES}
    clients.close()
    return told


def drained(url: str, queue: str) -> list[tuple[bytes, dict[str, Any]]]:
    """Bodies and headers, in order, of what is put back at the end."""
    clients = Clients(url)
    channel = clients.channel()
    found = []
    while (got := channel.basic_get(queue))[0] is not None:
        found.append((got[2], got[1].headers))
    clients.close()
    return found


def test_an_afternoon_and_the_way_back(
    rabbitmq: RabbitmqNode, routelog: BrokerProcess, tmp_path: Path
) -> None:
    export, take_over, move, back, move_back = blocks("sh")
    program = tmp_path / "routelog"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m routelog "$@"\n')
    program.chmod(0o700)
    path = f"{tmp_path}{os.pathsep}{rabbitmq.environment['PATH']}"
    environment = {
        **rabbitmq.environment,
        "PATH": path,
        "PYTHONPATH": str(ROOT / "src"),
        "ROUTELOG_DATA_DIR": str(routelog.data_dir),
        "TARGET_URL": f"{routelog.url}%2F",
    }

    def run(script: str) -> None:
        done = subprocess.run(
            ["bash", "-eu", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (script, done.stdout, done.stderr)

    before = Clients(rabbitmq.url)
    channel = before.channel()
    channel.confirm_delivery()
    channel.exchange_declare("shop", exchange_type="topic", durable=True)
    channel.queue_declare("orders", durable=True, arguments={"x-max-priority": 3})
    channel.queue_declare("invoices", durable=True, arguments={"x-queue-type": "quorum"})
    for queue in QUEUES:
        channel.queue_bind(queue, "shop", "order.#")
    properties = pika.BasicProperties(delivery_mode=2, headers={"customer": 17})
    for body in BODIES:
        channel.basic_publish("shop", "order.paid", body, properties)
    before.close()
    run(
        """
        rabbitmqctl add_user ann secret
        rabbitmqctl set_permissions ann '.*' '.*' '.*'
        rabbitmqctl set_policy mirrored '^inv' '{"ha-mode": "all"}'
        """
    )

    run(export)
    run(take_over)
    moved = Clients(routelog.url.replace("guest:guest", "ann:secret"))  # the old password
    channel = moved.channel()
    channel.confirm_delivery()
    # What Celery needs: transient, and not exclusive.
    channel.queue_declare("celeryev", durable=False, exclusive=False, auto_delete=True)
    run(move)
    everything = dict.fromkeys(QUEUES, len(BODIES))
    wait_until(lambda: counts(routelog.url) == everything, seconds=MOVED_SECONDS_MAX)
    assert counts(rabbitmq.url) == dict.fromkeys(QUEUES, 0)
    for queue in QUEUES:
        told = drained(routelog.url, queue)
        assert [body for body, _ in told] == BODIES
        assert all(headers["customer"] == 17 for _, headers in told)
    # Topology came along.
    channel.basic_publish("shop", "order.late", b"late", PERSISTENT, mandatory=True)

    channel.queue_declare("since", durable=True, arguments={"x-retention": "1d"})
    moved.close()
    run(back)
    run(move_back)
    everything = dict.fromkeys(QUEUES, len(BODIES) + 1)
    wait_until(lambda: counts(rabbitmq.url) == everything, seconds=MOVED_SECONDS_MAX)
    assert [body for body, _ in drained(rabbitmq.url, "orders")] == [*BODIES, b"late"]
    after = Clients(rabbitmq.url)
    after.channel().queue_declare("since", passive=True)
    after.close()


def test_the_program_of_the_page_moves_a_queue(
    rabbitmq: RabbitmqNode,
    routelog: BrokerProcess,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for url in (rabbitmq.url, routelog.url):
        clients = Clients(url)
        channel = clients.channel()
        channel.queue_declare("by.program", durable=True)
        if url == rabbitmq.url:
            channel.confirm_delivery()
            for body in BODIES:
                channel.basic_publish("", "by.program", body, PERSISTENT)
        clients.close()
    monkeypatch.setenv("RABBITMQ_URL", rabbitmq.url)
    monkeypatch.setenv("TARGET_URL", routelog.url)
    monkeypatch.setenv("QUEUE", "by.program")
    (program,) = blocks("python")
    exec(compile(program, PAGE.name, "exec"), {})
    assert capsys.readouterr().out == f"{len(BODIES)} messages moved\n"
    assert [body for body, _ in drained(routelog.url, "by.program")] == BODIES
