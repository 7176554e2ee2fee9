"""What the crash tests counted, for the summary that `tests/conftest.py` prints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from conftest import FIGURES


@pytest.fixture
def figures(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Have a line of figures printed at the end of the run, whichever process this test is in."""
    return partial(record_property, FIGURES)
