"""A broker to kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of the test's own."""
    process = BrokerProcess(tmp_path / "data").start()
    yield process
    process.stop()
