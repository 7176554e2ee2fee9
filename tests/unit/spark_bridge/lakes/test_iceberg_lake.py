"""Partner of spark_bridge/lakes/iceberg_lake.py: what many commits leave; `test_exporter.py` has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from unit.spark_bridge.lakes.test_exporter import DAY, PARTITION, PLAIN, places
from unit.spark_bridge.log_files import LogFiles

from routelog.log_backend import SystemClock, SystemDisk
from routelog.spark_bridge.columns.record_table import RecordRows
from routelog.spark_bridge.lakes import iceberg_lake
from routelog.spark_bridge.lakes.exporter import Exporter
from routelog.spark_bridge.lakes.iceberg_lake import IcebergLake
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.queue_selection import parse_selection


class LaterClock(SystemClock):
    """Is ahead by some days."""

    days = 0

    def now(self) -> int:
        return super().now() + self.days * DAY


class Export:
    """An export of a queue, commit by commit."""

    def __init__(self, data: Path) -> None:
        self.path, self.clock = data / "table", LaterClock()
        self.path.mkdir()
        self._log, self._end = LogFiles(data), 0
        self._exporter = Exporter(
            LogDirectory(data),
            "/",
            parse_selection({"subscribe": "audit"}),
            RecordRows(PLAIN),
            self.opened(),
        )

    def opened(self) -> IcebergLake:
        return IcebergLake(self.path, PLAIN, "e", SystemDisk(), self.clock)

    def commit(self, count: int = 1) -> None:
        for _ in range(count):
            self._log.numbered_segment(self._end, 1)
            self._end += 1
            assert self._exporter.run(self._exporter.backlog(), lambda: False).records == 1

    def table(self) -> Table:
        catalog = SqlCatalog("routelog", uri=f"sqlite:///{self.path}/catalog.db")
        return catalog.load_table("routelog.records")

    def files(self, pattern: str) -> list[Path]:
        return list((self.path / "routelog" / "records" / "metadata").glob(pattern))

    def check(self) -> None:
        """All records are there, and the position is theirs."""
        assert places("iceberg", self.path) == [("audit", 0, n) for n in range(self._end)]
        assert self.opened().position([PARTITION]) == {PARTITION: self._end}


@pytest.fixture
def export(tmp_path: Path) -> Export:
    return Export(tmp_path)


def test_old_metadata_files_go(export: Export) -> None:
    export.commit(15)
    assert len(export.files("*.metadata.json")) == 11
    export.check()


def test_many_manifests_are_merged(export: Export) -> None:
    export.commit()
    with export.table().transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "4"})
    for _ in range(10):
        export.commit()
        snapshot = export.table().current_snapshot()
        assert snapshot is not None
        assert len(snapshot.manifests(export.table().io)) <= 4
    export.check()


def test_old_snapshots_go_with_their_files(export: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_lake, "EXPIRED_AT_ONCE", 3)
    export.commit(6)
    tagged, first = export.table().metadata.snapshots[1], export.table().metadata.snapshots[0]
    export.table().manage_snapshots().create_tag(tagged.snapshot_id, "kept").commit()
    export.clock.days = 4
    export.commit()
    assert len(export.table().metadata.snapshots) == 7
    export.clock.days = 6
    export.commit()  # the new snapshot is of today, too, for pyiceberg
    left = [each.snapshot_id for each in export.table().metadata.snapshots]
    assert (len(left), first.snapshot_id in left, tagged.snapshot_id in left) == (5, False, True)
    assert len(export.files("snap-*.avro")) == 5
    export.check()


def test_a_table_says_how_long_its_snapshots_stay(
    export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_lake, "EXPIRED_AT_ONCE", 1)
    export.commit(2)
    export.clock.days = 6
    with export.table().transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": str(7 * DAY // 1_000)})
    export.commit()
    assert len(export.table().metadata.snapshots) == 3


def test_what_a_table_says_of_its_upkeep_stays(export: Export) -> None:
    with export.table().transaction() as transaction:
        transaction.set_properties({"write.metadata.previous-versions-max": "3"})
    export.commit(6)
    assert len(export.files("*.metadata.json")) == 4
    export.check()
