"""Who commits: the journal's thread, or the event loop itself, as it does while the disk is quick."""

import pytest

from routelog.log_backend.journal import disk_pace

COMMITTERS = ("thread", "loop")


def choose_committer(committer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the thread make all commits, or the loop all that it may make."""
    commits = {"thread": 1 << 60, "loop": 0}[committer]
    monkeypatch.setattr(disk_pace, "QUICK_COMMITS_MIN", commits)
