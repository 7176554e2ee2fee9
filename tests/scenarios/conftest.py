"""Fixtures for scenarios with several kinds of clients at once."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scenarios.clients.bad_input import Peer
from scenarios.clients.bystander import Bystander
from scenarios.storage.machine_pauses import pauses
from scenarios.storage.small_disk import small_broker, small_disk
from support.broker_process import COMMAND_VARIABLE, BrokerProcess, ForeignBroker
from support.management_door import ManagementDoor

__all__ = ["bystander", "pauses", "peer", "small_broker", "small_disk"]


@pytest.fixture(scope="module")
def bystander(broker: BrokerProcess | ForeignBroker) -> Iterator[Bystander]:
    """A connection at work that no other connection's mistake may touch."""
    watching = Bystander(broker.host, broker.port)
    yield watching
    watching.stop()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of the module's own."""
    process = BrokerProcess(tmp_path_factory.mktemp("world")).start()
    yield process
    process.stop()


@pytest.fixture
def door(world: BrokerProcess) -> ManagementDoor:
    """The HTTP API of the module's broker."""
    return ManagementDoor(world)


@pytest.fixture
def impatient_broker(
    fresh_broker: Callable[[], BrokerProcess], monkeypatch: pytest.MonkeyPatch
) -> BrokerProcess:
    """A broker that waits for a moment only, until HTTP answers are read and clients leave."""
    program = Path(__file__).parent / "nodes" / "impatient_broker.py"
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(program)]))
    return fresh_broker()


@pytest.fixture
def peer(broker: BrokerProcess | ForeignBroker) -> Iterator[Peer]:
    """An open raw connection with channel 1 open."""
    with Peer(broker.host, broker.port) as opened:
        opened.open()
        opened.open_channel()
        yield opened
