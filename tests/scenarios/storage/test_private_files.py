"""Nobody but its owner reads the data directory, whatever the umask was and whatever an earlier run left."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT, Clients, declare, drain


@pytest.fixture
def open_handed() -> Iterator[None]:
    """Processes of this test begin with a umask that hides nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(data: Path) -> dict[str, set[int]]:
    """Of all folders and of all files."""
    found: dict[str, set[int]] = {"folders": {mode(data)}, "files": set()}
    for parent, folders, files in os.walk(data):
        found["folders"] |= {mode(Path(parent) / name) for name in folders}
        found["files"] |= {mode(Path(parent) / name) for name in files}
    return found


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


PRIVATE = {"folders": {0o700}, "files": {0o600}}


def test_the_data_directory_is_private_and_the_unix_socket_is_as_the_umask_says(
    tmp_path: Path, open_handed: None
) -> None:
    data, unix = tmp_path / "data", tmp_path / "amqp.sock"
    environment = {"ROUTELOG_UNIX_SOCKET": str(unix), "ROUTELOG_FLUSH_SECONDS": "0.05"}
    broker = BrokerProcess(data, environment)
    try:
        broker.start()
        assert mode(unix) == 0o777
        publish(broker)
        assert modes(data) == PRIVATE
        broker.terminate()
        for parent, folders, files in os.walk(data):
            for name in folders:
                (Path(parent) / name).chmod(0o755)
            for name in files:
                (Path(parent) / name).chmod(0o644)
        data.chmod(0o777)
        broker.start()
        assert modes(data) == PRIVATE
        assert "had mode 0777" in broker.log_text()
        clients = Clients(broker.url)
        assert drain(clients.channel(), "q") == [b"secret"]
        clients.close()
    finally:
        broker.stop()


def publish(broker: BrokerProcess) -> None:
    clients = Clients(broker.url)
    channel = clients.channel()
    declare(channel, "q", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"secret", PERSISTENT)
    clients.close()
