from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from unit.management.managed_node import ManagedNode, managed_node
from unit.management.page_browser import Browser, browsing, rendering

from routelog.management.server import page_server


@pytest.fixture(autouse=True)
def compiled_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "Rendering", rendering)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[ManagedNode]:
    async with managed_node(tmp_path / "data") as node:
        yield node


@pytest.fixture
async def browser(node: ManagedNode) -> AsyncIterator[Browser]:
    async with browsing(node) as browser:
        yield browser
