"""The data directory is its owner's alone."""

import os
import stat
from pathlib import Path

import pytest

from routelog.log_backend.doors.private_files import narrow, others_may_read


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """As an earlier run has left it, with a file that is none of ours."""
    data = tmp_path / "data"
    folder = data / "logs" / "%2F" / "q-0"
    for each in (folder, data / "metadata", data / "others"):
        each.mkdir(parents=True)
    for file in (data / "LOCK", data / "metadata" / "CURRENT", folder / "1.log", data / "notes"):
        file.write_text("x")
    for parent, folders, files in os.walk(data):
        for name in folders:
            (Path(parent) / name).chmod(0o755)
        for name in files:
            (Path(parent) / name).chmod(0o644)
    data.chmod(0o777)
    return data


def test_what_an_earlier_run_left_to_others_is_theirs_no_more(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    narrow(data)
    folders = [data, *(data / each for each in ("logs", "logs/%2F", "logs/%2F/q-0", "metadata"))]
    assert {mode(each) for each in folders} == {0o700}
    files = [data / each for each in ("LOCK", "metadata/CURRENT", "logs/%2F/q-0/1.log")]
    assert {mode(each) for each in files} == {0o600}
    assert len(caplog.messages) == 1
    assert "had mode 0777" in caplog.text
    narrow(data)
    assert len(caplog.messages) == 1


def test_files_that_are_not_the_brokers_keep_their_modes(data: Path) -> None:
    narrow(data)
    assert [mode(data / "notes"), mode(data / "others")] == [0o644, 0o755]


def test_links_are_not_followed(data: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o755)  # mkdir would ask the umask, which brokers in this process set
    (data / "journal").symlink_to(elsewhere)
    narrow(data)
    assert mode(elsewhere) == 0o755


def test_a_directory_of_everybody_stays_as_it_is_and_is_warned_of(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data.chmod(0o1777)
    narrow(data)
    assert mode(data) == 0o1777
    assert mode(data / "metadata") == 0o700
    assert "everybody's (mode 1777)" in caplog.text


def test_a_directory_that_is_not_there_yet_is_no_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    narrow(tmp_path / "none")
    assert not caplog.messages


def test_a_directory_that_may_not_be_changed_is_warned_of(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "made to fail")

    monkeypatch.setattr(os, "chmod", refuse)
    narrow(data)
    assert "stays open to others" in caplog.text


def test_a_key_that_everybody_may_read_is_seen(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    assert not others_may_read(key)
    key.write_text("x")
    key.chmod(0o644)
    assert others_may_read(key)
    key.chmod(0o640)
    assert not others_may_read(key)
