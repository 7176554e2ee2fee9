from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from unit.log_backend.journal_owner import Owner
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.journal import journal as journal_module


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that is not there yet."""
    return tmp_path / "data"


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests count blocks: the journal writes none by itself."""
    monkeypatch.setattr(journal_module, "MARK_SECONDS", 3600)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "journal").mkdir()
    return tmp_path / "journal"


@pytest.fixture
async def owner(directory: Path, disk: WatchedDisk) -> AsyncIterator[Owner]:
    owner = Owner(directory, disk)
    owner.start()
    yield owner
    await owner.journal.aclose()
