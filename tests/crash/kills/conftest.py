"""A broker to kill, on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.disks.disk_directories import tmp_path_factory
from support.broker_process import BrokerProcess

__all__ = ["broker", "tmp_path_factory"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of the test's own."""
    process = BrokerProcess(tmp_path / "data").start()
    yield process
    process.stop()
