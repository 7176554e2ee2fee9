from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from unit.management.managed_node import ManagedNode, managed_node


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[ManagedNode]:
    async with managed_node(tmp_path / "data") as node:
        yield node
