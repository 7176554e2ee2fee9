"""Each file of a store is removed in turn: what it held is missed by name, or nothing is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from crash.damage.stored_log import QUEUES, Messages, Outcome, build, check, read_all

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.metadata.metadata import MetadataCorrupt, MetadataUnavailable
from routelog.log_backend.tools.data_directory import DataDirectory, open_metadata
from routelog.log_backend.tools.log_repair import Repair, Repaired
from routelog.log_backend.tools.log_verification import Finding, Verification

pytestmark = pytest.mark.crash

DISK = SystemDisk()
NAMES = {number: ("/", queue, 0) for number, queue in enumerate(QUEUES, 1)}
REBUILT = (".index", ".timeindex")


def verify(data: Path) -> list[Finding]:
    with open_metadata(data, DISK, read_only=True) as metadata:
        findings = Verification(DataDirectory(data, DISK, metadata, NAMES)).run()
        return [each for each in findings if each.severity == "damage"]


def repair(data: Path) -> list[Repaired]:
    with open_metadata(data, DISK, read_only=False) as metadata:
        directory = DataDirectory(data, DISK, metadata, NAMES)
        return list(Repair(directory, data / "quarantine" / "x", is_dry=False).run())


async def check_segment(copy: Path, missing: Path, promised: Messages, read: Outcome) -> None:
    """The queue is quarantined from the segment on, and a repair gives up what was in it."""
    queue = missing.parent.name[0]
    base = int(missing.stem)
    expected = promised[queue]
    assert read.quarantined == {queue}
    assert any("missing" in each or "cut off" in each for each in read.reports)
    assert read.messages == promised | {
        queue: {offset: body for offset, body in expected.items() if offset < base}
    }
    (finding,) = verify(copy)
    assert (finding.queue, finding.first) == (queue, base)
    assert finding.end is not None
    lost = [each for step in repair(copy) for each in step.lost]
    assert lost == [(base, finding.end)]
    assert verify(copy) == []


async def test_every_file_is_missed_that_something_is_lost_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    promised = await build(data)
    refused = missed = 0
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        name = path.relative_to(data)
        shutil.copytree(data, copy)
        (copy / name).unlink()
        try:
            outcome = await read_all(copy, caplog)
        except (MetadataCorrupt, MetadataUnavailable):
            assert name.parts[0] == "metadata"
            shutil.rmtree(copy)
            refused += 1
            continue
        check(outcome, promised, str(name))
        if name.parts[0] == "journal":
            assert outcome.refused
            assert path.name[:20] in outcome.reports[0]
            (finding,) = verify(copy)
            assert path.name[:20] in finding.file
            repair(copy)
            assert not (await read_all(copy, caplog)).refused
            refused += 1
        elif path.suffix == ".log" and name.parts[0] == "logs":
            await check_segment(copy, path, promised, outcome)
            repaired = await read_all(copy, caplog)
            assert not repaired.quarantined
            missed += 1
        elif outcome.refused:
            assert "the metadata know nothing" in outcome.reports[0]
            refused += 1
        elif path.name == "PARTITION":
            assert outcome.quarantined == {path.parent.name[0]}
            missed += 1
        else:
            assert outcome.messages == promised
            assert outcome.reports or path.suffix not in REBUILT
        shutil.rmtree(copy)
    assert refused >= 6
    assert missed >= 12
