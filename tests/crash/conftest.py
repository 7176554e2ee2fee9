"""What the crash tests counted, for the summary that `tests/conftest.py` prints; and a disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from conftest import FIGURES
from support.disk_directories import tmp_path_factory

__all__ = ["figures", "tmp_path_factory"]


@pytest.fixture
def figures(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Have a line of figures printed at the end of the run, whichever process this test is in."""
    return partial(record_property, FIGURES)
