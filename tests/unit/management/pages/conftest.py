from collections.abc import AsyncIterator

import pytest
from unit.management.managed_node import ManagedNode
from unit.management.page_browser import Browser, browsing


@pytest.fixture
async def browser(node: ManagedNode) -> AsyncIterator[Browser]:
    async with browsing(node) as browser:
        yield browser
