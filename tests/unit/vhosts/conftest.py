"""A node that most tests of this package run on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import Node, running_node


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as running:
        yield running
