"""What exporting a log costs, without Spark.

    python -m routelog.benchmarks.studies.export --megabytes 500 --folder DIR

Orders as JSON in segments, as in `spark_read.py`, are exported with all columns to each kind of table,
several times; prints the best of each as bytes of bodies a second of processor time, of all threads together.
"""

import argparse
import tempfile
import time
from pathlib import Path

from routelog.benchmarks.studies.spark_read import write_logs
from routelog.spark_bridge.columns.record_table import RecordRows, TableLayout
from routelog.spark_bridge.lakes.export_commands import TableFormat, open_table
from routelog.spark_bridge.lakes.exporter import Exporter
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.queue_selection import NamedQueues


def _export(data: Path, table: Path, table_format: TableFormat) -> tuple[float, float, int]:
    """Seconds, seconds of the processors, and bytes of bodies."""
    layout = TableLayout()
    exporter = Exporter(
        LogDirectory(data),
        "/",
        NamedQueues(frozenset({"orders"})),
        RecordRows(layout),
        open_table(table, table_format, layout, "export"),
    )
    begun, cpu = time.perf_counter(), time.process_time()
    done = exporter.run(exporter.backlog(), lambda: False)
    return time.perf_counter() - begun, time.process_time() - cpu, done.body_bytes


def main() -> None:
    """Make the data, export it, and remove it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=500, help="of bodies")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="for the data; default: below /tmp")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="routelog-export-", dir=given.folder) as folder:
        data = Path(folder) / "data"
        write_logs(data, given.megabytes)
        print("| Table | Seconds | CPU s | MB per CPU s |\n|---|---|---|---|")
        for each in TableFormat:
            rounds = [
                _export(data, Path(folder) / f"{each}-{number}", each)
                for number in range(given.rounds)
            ]
            seconds, cpu, size = min(rounds, key=lambda found: found[1])
            print(f"| {each} | {seconds:.2f} | {cpu:.2f} | {size / 1e6 / cpu:,.0f} |")


if __name__ == "__main__":
    main()
