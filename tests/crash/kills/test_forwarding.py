"""An agent's broker, the script that forwards and the broker in the middle are killed: all is there once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from support.broker_process import ROOT, BrokerProcess
from support.pika_client import PERSISTENT, Clients, drain
from support.waiting import wait_until

pytestmark = pytest.mark.crash

SCRIPT = ROOT / "docs" / "examples" / "forward.py"
MESSAGES = 3_000
ONCE = {"x-cache-size": 100_000, "x-cache-persistence": "disk"}


def count(url: str) -> int:
    clients = Clients(url)
    ready: int = clients.channel().queue_declare("all", passive=True).method.message_count
    clients.close()
    return ready


def test_each_message_is_forwarded_once_and_in_order(tmp_path: Path) -> None:
    agent = BrokerProcess(tmp_path / "agent").start()
    center = BrokerProcess(tmp_path / "center").start()
    channel = Clients(center.url).channel()
    channel.exchange_declare("incoming", "x-message-deduplication", durable=True, arguments=ONCE)
    channel.queue_declare("all", durable=True)
    channel.queue_bind("all", "incoming")
    channel = Clients(agent.url).channel()
    channel.queue_declare("outgoing", durable=True, arguments={"x-queue-type": "stream"})
    command = [sys.executable, str(SCRIPT), agent.url, "outgoing", center.url, "incoming"]
    scripts = [subprocess.Popen(command)]

    def kill_script() -> None:
        scripts[-1].kill()
        scripts[-1].wait()
        scripts.append(subprocess.Popen(command))

    def kill_and_start(process: BrokerProcess) -> Callable[[], None]:
        def kill() -> None:
            process.kill()
            process.start()

        return kill

    def is_above(before: int) -> bool:
        return count(center.url) > before

    kills = (kill_script, kill_and_start(center), kill_and_start(agent))
    try:
        for number, kill in enumerate(kills, 1):
            channel = Clients(agent.url).channel()
            channel.tx_select()
            published = MESSAGES * number // len(kills)
            for each in range(MESSAGES * (number - 1) // len(kills), published):
                channel.basic_publish("", "outgoing", b"%d" % each, PERSISTENT)
            before = count(center.url)
            channel.tx_commit()
            wait_until(partial(is_above, before))
            kill()
        wait_until(lambda: count(center.url) >= MESSAGES)
        bodies = drain(Clients(center.url).channel(), "all")
        assert bodies == [b"%d" % each for each in range(MESSAGES)]
    finally:
        scripts[-1].kill()
        scripts[-1].wait()
        agent.stop()
        center.stop()
