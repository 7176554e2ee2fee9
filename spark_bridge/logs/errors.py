"""Errors of reads and writes: of the query, of the log, or of the storage."""

from pathlib import Path

from routelog.spark_bridge.logs.readable_logs import LogPartition


class BadOption(ValueError):
    """An option of the query is unknown, missing, or not valid."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"option {option}: {reason}")
        self.option = option


class BadSchema(ValueError):
    """The schema given with the query names a column that does not exist, or another type."""


class WorkersLackRouteLog(Exception):
    """RouteLog is not installed for the Python interpreter of Spark's workers."""

    def __init__(self, interpreter: str, own: str) -> None:
        super().__init__(
            f"Spark's workers run '{interpreter}', which is not there, lacks RouteLog "
            f"(routelog-broker[spark]), or has another version of Python than this program's, {own}: "
            "set PYSPARK_PYTHON before the session is made, or spark.pyspark.python with spark-submit, to an "
            "interpreter that has it"
        )


class LogUnreadable(Exception):
    """Records cannot be read: they are lost or damaged, or their storage cannot be reached."""


class RecordsLost(LogUnreadable):
    """Offsets of the query are not in the log any more."""

    def __init__(self, partition: LogPartition, start: int, end: int) -> None:
        super().__init__(
            f"offsets {start} to {end - 1} of {partition} are not in the log: they were consumed or "
            "older than the queue's retention (x-retention, x-max-age, x-max-length-bytes), the "
            "queue was deleted, or they were never written; "
            "with failOnDataLoss=false (export: --skip-lost) the query reads what there is"
        )
        self.partition = partition
        self.start = start
        self.end = end


class DeclaredAgain(RecordsLost):
    """The offsets of the query are those of a queue of the same name that was deleted."""

    def __init__(self, partition: LogPartition, position: int) -> None:
        super().__init__(partition, position, position)
        self.args = (
            f"{partition} was deleted and declared again: the query has read the earlier one to offset "
            f"{position}; with failOnDataLoss=false (export: --skip-lost) it reads this one from its beginning",
        )


class DamagedSegment(LogUnreadable):
    """A segment has other bytes where a batch must be."""

    def __init__(self, path: Path | str, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at position {position}: {reason}")
        self.path = path
        self.position = position


class DamagedBatch(LogUnreadable):
    """A batch has correct checksums, but inconsistent offset columns."""

    def __init__(self, base_offset: int, reason: str) -> None:
        super().__init__(f"the batch at offset {base_offset} is damaged: {reason}")
        self.base_offset = base_offset


class ServiceUnreachable(LogUnreadable):
    """The broker's HTTP log service cannot be reached, or fails again and again."""

    def __init__(self, endpoint: str, reason: str) -> None:
        super().__init__(
            f"option url: {endpoint} cannot be reached: {reason}; is the broker running, with "
            "management = true, and is this its HTTP port?"
        )


class StorageUnreachable(LogUnreadable):
    """Remote storage does not answer, or refuses."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"option remote: {place} cannot be read: {reason}")


class ServiceRefused(LogUnreadable):
    """The broker's HTTP log service answers with an unexpected error."""


class HoldLapsed(ServiceRefused):
    """The broker removed records that a named consumer had not read: they exceeded the limit of its hold."""


class BadRow(ValueError):
    """A row to be published lacks a column that every message needs."""

    def __init__(self, column: str) -> None:
        super().__init__(f"a row has null in column {column}")
        self.column = column


class PublishFailed(Exception):
    """The broker did not accept all messages; earlier ones may be in its queues."""
