"""What closed connections leave of memory: what the most at one time took, which is used again, and samples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pamqp import commands
from scenarios.clients.raw_client import RawClient
from support.broker_process import BrokerProcess

pytestmark = pytest.mark.differs_from_rabbitmq("is measured as a process")

TOGETHER, ROUNDS = 200, 10
# Measured: 0.6 KB each for their samples, of ten minutes at most. A leak was feared of 16 KB.
LEFT_BYTES_MAX = 2_048
ELSEWHERE_BYTES = (
    6 * 1_048_576
)  # that the process takes meanwhile for what it does every few seconds


def resident_bytes(broker: BrokerProcess) -> int:
    pages = int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def come_and_go(broker: BrokerProcess) -> None:
    clients = [RawClient(broker.host, broker.port).open() for _ in range(TOGETHER)]
    for client in clients:
        client.send(commands.Connection.Close(200, "", 0, 0))
    for client in clients:
        client.expect(commands.Connection.CloseOk)
        client.socket.close()


def test_connections_that_have_gone_leave_little(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    try:
        come_and_go(broker)
        before = resident_bytes(broker)
        for _ in range(ROUNDS):
            come_and_go(broker)
        left = resident_bytes(broker) - before
        assert left < TOGETHER * ROUNDS * LEFT_BYTES_MAX + ELSEWHERE_BYTES
    finally:
        broker.stop()
