"""Directories on a disk for tests of it: those of the others are in memory in `make test`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

DISK = "/var/tmp"  # what is there outlives a restart of the machine


@pytest.fixture(scope="session")
def tmp_path_factory(request: pytest.FixtureRequest) -> Iterator[pytest.TempPathFactory]:
    """pytest's own, on the disk, where it keeps what the last runs that failed have left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DEBUG_TEMPROOT", DISK)
        patch.setattr(request.config.option, "basetemp", None)
        factory = pytest.TempPathFactory.from_config(request.config, _ispytest=True)
        directory = factory.getbasetemp()
    yield factory
    if not request.session.testsfailed:
        shutil.rmtree(directory)
