"""Directories on a disk for tests of it: those of the others are in memory in `make test`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DISK = "/var/tmp"  # what is there outlives a restart of the machine


@pytest.fixture(scope="session")
def tmp_path_factory(request: pytest.FixtureRequest) -> Iterator[pytest.TempPathFactory]:
    """pytest's own, on the disk; its `tmp_path` follows it."""
    directory = tempfile.mkdtemp(prefix="routelog-tests-", dir=DISK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request.config.option, "basetemp", Path(directory, "run"))
        factory = pytest.TempPathFactory.from_config(request.config, _ispytest=True)
    yield factory
    if not request.session.testsfailed:
        shutil.rmtree(directory)
