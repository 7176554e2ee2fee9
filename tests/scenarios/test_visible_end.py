"""Readers of logs see what its durability promises, and see it as soon as it is that."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

import pytest
from broker_process import COMMAND_VARIABLE
from pamqp import commands
from pika_client import PERSISTENT, Clients, Inbox, wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("its disk cannot be held from here")

PROGRAM = Path(__file__).with_name("faulty_disk_broker.py")
STREAM = {"x-queue-type": "stream"}
QUIET_SECONDS = 0.3  # thirty times what a commit may wait


@pytest.fixture
def faults(tmp_path, monkeypatch):
    """Where a file `stall` makes every sync of the journal wait."""
    folder = tmp_path / "faults"
    folder.mkdir()
    monkeypatch.setenv("ROUTELOG_TEST_FAULTS", str(folder))
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(PROGRAM)]))
    return folder
