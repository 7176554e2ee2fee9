"""Puts the changes of cursors into the journal before its next commit."""

from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_groups import JournalGroups
from routelog.log_backend.partitions.partition_log import PartitionLog


def journal_changes(partitions: set[PartitionLog], groups: JournalGroups) -> None:
    """Append the changes that the cursors of partitions have gathered, and empty the set."""
    for partition in partitions:
        for cursor in partition.cursors.values():
            for change in cursor.take_changes():
                groups.append(JournalEntry(partition.number, change), False, partition.synced)
    partitions.clear()


def forget_changes(partitions: set[PartitionLog]) -> None:
    """Append nothing of it: the journal is where it came from; the set is empty then."""
    for partition in partitions:
        for cursor in partition.cursors.values():
            cursor.take_changes()
    partitions.clear()
