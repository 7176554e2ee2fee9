"""An Iceberg table as the target of an export, with its own catalog: SQLite, in the table's folder.

The next offset of each log is a property of the table, `routelog.<exporter>/<vhost>/<queue>/<partition>`. With
`/number` behind it, a property is the partition's number on its broker. A commit changes them together with its
snapshot. Files that were not committed before a crash are in no snapshot.

pyiceberg repeats a commit that another one has overtaken, on top of that one. So it does not keep exporters of
one name apart: a lock and a look at the properties do.

Each metadata file lists all snapshots, and each manifest list all manifests. So old metadata files go,
manifests are merged, and snapshots go that are older than `history.expire.max-snapshot-age-ms`, a property of
the table, by default five days. The files of merged manifests stay until another engine removes orphans.
"""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table, TableProperties

from routelog.log_backend import Clock, Disk
from routelog.spark_bridge.columns.record_table import PARTITION_COLUMNS, TableLayout
from routelog.spark_bridge.lakes.iceberg_files import DurableCatalog
from routelog.spark_bridge.lakes.lake_table import NUMBER, TableUnusable, WriterLock
from routelog.spark_bridge.logs.readable_logs import LogPartition
from routelog.spark_bridge.reading.stored_offsets import NumberedOffsets, Offsets, numbers_of

NAMESPACE, TABLE = "routelog", "records"
FILE_PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
}
# Of earlier tables as well; what a table has already stays.
UPKEEP_PROPERTIES = {
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "10",
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
}
EXPIRED_AT_ONCE = 100  # a commit of its own, whose cost grows with the snapshots in it


class IcebergLake:
    """An Iceberg table, written by one exporter; a transaction is in memory until its commit.

    Raises:
        TableUnusable: the table has other columns.
    """

    def __init__(
        self, path: Path, layout: TableLayout, exporter: str, disk: Disk, clock: Clock
    ) -> None:
        self._path = path.absolute()
        self._schema = layout.schema
        self._exporter = exporter
        self._disk = disk
        self._clock = clock
        self._lock = WriterLock(self._path / f"_{quote(exporter, safe='')}.lock", exporter, disk)
        self._table = self._opened()
        self._positions = self._own_properties()
        self._rows: list[pa.RecordBatch] = []

    def position(self, partitions: Collection[LogPartition]) -> NumberedOffsets:
        """The next offset to export, and the partition's number, for each partition in the table."""
        known = self._table.properties
        keys = {each: self._key(each) for each in partitions}
        numbers = {each: known.get(key + NUMBER) for each, key in keys.items()}
        return NumberedOffsets(
            {each: int(known[key]) for each, key in keys.items() if key in known},
            {each: int(number) for each, number in numbers.items() if number is not None},
        )

    def add(self, queue: str, rows: pa.RecordBatch) -> None:
        """Add rows of one queue to the open transaction."""
        self._lock.take()
        days = pc.cast(rows.column("timestamp"), pa.date32())
        names = pa.repeat(pa.scalar(queue), rows.num_rows)
        columns = [days, names, *rows.columns]
        self._rows.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def commit(self, ends: Offsets) -> None:
        """Commit the added rows, together with the next offset of each partition, and its number."""
        with self._lock:
            self._commit(ends)

    def _commit(self, ends: Offsets) -> None:
        self._table.refresh()
        if self._own_properties() != self._positions:
            raise TableUnusable(f"{self._path}: somebody else exports as '{self._exporter}'")
        try:
            with self._table.transaction() as transaction:
                if self._rows:
                    transaction.append(pa.Table.from_batches(self._rows, self._schema))
                transaction.set_properties(self._properties(ends))
        except CommitFailedException as error:
            raise TableUnusable(
                f"{self._path}: somebody else has changed the table: {error}"
            ) from None
        self._positions = self._own_properties()
        self._rows = []
        self._expire_snapshots()

    def _expire_snapshots(self) -> None:
        metadata, age_key = self._table.metadata, TableProperties.MAX_SNAPSHOT_AGE_MS
        age = int(metadata.properties.get(age_key, TableProperties.MAX_SNAPSHOT_AGE_MS_DEFAULT))
        limit = self._clock.now() // 1_000 - age
        named = {each.snapshot_id for each in metadata.refs.values()}
        old = [
            each
            for each in metadata.snapshots
            if each.timestamp_ms < limit and each.snapshot_id not in named
        ]
        if len(old) < EXPIRED_AT_ONCE:
            return
        expired = old[:EXPIRED_AT_ONCE]
        # Another exporter may have expired them meanwhile; the next commit tries again.
        with suppress(CommitFailedException, ValueError):
            expiry = self._table.maintenance.expire_snapshots()
            expiry.by_ids([each.snapshot_id for each in expired]).commit()
            for each in expired:
                with suppress(FileNotFoundError):
                    self._table.io.delete(each.manifest_list)

    def _own_properties(self) -> dict[str, str]:
        """The positions that are stored under this exporter's name."""
        known, prefix = self._table.properties, self._prefix()
        return {key: value for key, value in known.items() if key.startswith(prefix)}

    def _opened(self) -> Table:
        uri = f"sqlite:///{self._path}/catalog.db"
        warehouse = f"file://{self._path}"
        catalog = DurableCatalog(NAMESPACE, self._disk, uri=uri, warehouse=warehouse)
        catalog.create_namespace_if_not_exists(NAMESPACE)
        try:
            table = catalog.load_table((NAMESPACE, TABLE))
        except NoSuchTableError:
            with (
                catalog.create_table_transaction(
                    (NAMESPACE, TABLE), self._schema, properties=FILE_PROPERTIES
                ) as transaction,
                transaction.update_spec() as spec,
            ):
                for column in PARTITION_COLUMNS:
                    spec.add_identity(column)
            return catalog.load_table((NAMESPACE, TABLE))
        names = table.schema().as_arrow().names
        if names != self._schema.names:
            raise TableUnusable(f"{self._path}: the table has other columns: {', '.join(names)}")
        return table

    def _properties(self, ends: Offsets) -> dict[str, str]:
        offsets = {self._key(each): str(end) for each, end in ends.items()}
        numbers = numbers_of(ends).items()
        stored = {self._key(each) + NUMBER: str(number) for each, number in numbers}
        known = self._table.properties
        upkeep = {key: value for key, value in UPKEEP_PROPERTIES.items() if key not in known}
        return offsets | stored | upkeep

    def _key(self, partition: LogPartition) -> str:
        names = (partition.vhost, partition.queue, str(partition.partition))
        return self._prefix() + "/".join(quote(name, safe="") for name in names)

    def _prefix(self) -> str:
        return f"routelog.{quote(self._exporter, safe='')}/"
