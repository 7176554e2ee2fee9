"""Nothing of these tests stays open in the process, which runs others behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from crash.disks import powered_disk


@pytest.fixture(autouse=True)
def _close_what_failed_nodes_left() -> Iterator[None]:
    # Not earlier: what such a node had begun goes on until the test's event loop ends.
    yield
    while powered_disk.made:
        powered_disk.made.pop().close_all()
