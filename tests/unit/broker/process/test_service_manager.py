"""What the service manager hears over its datagram socket."""

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from routelog.broker.process.service_manager import ServiceManager


def listening(address: str) -> socket.socket:
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.settimeout(60)
    receiver.bind(address)
    return receiver


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # sun_path holds 108 bytes, so the directory's name is kept short.
    return tmp_path_factory.mktemp("n") / "s"


@pytest.fixture
def receiver(path: Path) -> Iterator[socket.socket]:
    with listening(str(path)) as receiver:
        yield receiver


def test_ready_and_stopping_are_told_in_order(receiver: socket.socket, path: Path) -> None:
    manager = ServiceManager.from_environment({"NOTIFY_SOCKET": str(path)})
    manager.ready()
    manager.stopping()
    assert [receiver.recv(100), receiver.recv(100)] == [b"READY=1", b"STOPPING=1"]


def test_an_abstract_socket_is_reached_by_its_at_sign() -> None:
    name = f"routelog-test-{os.getpid()}"
    with listening("\0" + name) as receiver:
        ServiceManager("@" + name).ready()
        assert receiver.recv(100) == b"READY=1"


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}])
def test_without_a_service_manager_nothing_happens(
    environment: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "socket", None)  # would raise if it were called
    ServiceManager.from_environment(environment).ready()
    assert caplog.records == []


@pytest.mark.parametrize("address", ["/nowhere/at/all", "/" + "x" * 300])
def test_a_service_manager_out_of_reach_is_logged_and_ignored(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        ServiceManager(address).stopping()
    assert [record.name for record in caplog.records] == ["routelog.broker.process.service_manager"]
    assert address in caplog.text


def test_a_full_socket_does_not_block(receiver: socket.socket, path: Path) -> None:
    manager = ServiceManager(str(path))
    for _ in range(2000):  # more than net.unix.max_dgram_qlen datagrams
        manager.ready()
    assert receiver.recv(100) == b"READY=1"
