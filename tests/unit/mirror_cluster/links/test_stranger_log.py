"""What is told of strangers, and how often."""

import logging

import pytest
from support.waiting import until

from routelog.mirror_cluster.links.stranger_log import StrangerLog


async def test_a_line_is_no_longer_than_its_limit(caplog: pytest.LogCaptureFixture) -> None:
    strangers = StrangerLog()
    strangers.tell(logging.WARNING, "x" * 4_096)
    strangers.tell(logging.WARNING, "100 %s")
    assert caplog.messages == ["x" * 512 + "… (3584 characters more)", "100 %s"]
    strangers.end_window()
    assert len(caplog.messages) == 2


async def test_behind_a_window_the_number_of_lines_left_out_is_told_and_others_are(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.mirror_cluster.links.stranger_log.WINDOW_SECONDS", 0.01)
    monkeypatch.setattr("routelog.mirror_cluster.links.stranger_log.LINES_MAX", 2)
    strangers = StrangerLog()
    for number in range(5):
        strangers.tell(logging.WARNING, f"stranger {number}")
    strangers.tell(logging.DEBUG, "not wanted")
    await until(lambda: len(caplog.messages) == 3)
    strangers.tell(logging.WARNING, "the next")
    assert caplog.messages == [
        "stranger 0",
        "stranger 1",
        "3 more lines like these, of who was not introduced",
        "the next",
    ]
    strangers.end_window()
