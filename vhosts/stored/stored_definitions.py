"""Definitions in memory that the metadata store has, too."""

import asyncio
from abc import ABC, abstractmethod
from urllib.parse import unquote

from routelog.log_backend import Change, MetadataStore, MetadataWriter


class StoredDefinitions(ABC):
    """Definitions that one function changes: `apply`, whether a client changed them or they were stored before.

    So what is in memory is what a start would find. As everywhere in this package, a change is submitted before
    memory changes, with no await in between, and awaited last: memory and store see all changes in one order, a
    refusal leaves memory as it was, and a client hears of success when the change is durable.

    Attributes:
        prefixes: of their keys, in the order in which they are loaded.
    """

    def __init__(self, writer: MetadataWriter, *prefixes: bytes) -> None:
        self._writer = writer
        self.prefixes = prefixes

    @abstractmethod
    def apply(self, change: Change) -> None:
        """Carry out a change that is in the journal, or will be; once more, it changes nothing.

        Raises:
            MetadataCorrupt: it cannot be read.
        """

    def keeps(self, key: bytes) -> bool:
        """Whether a change of a key is for `apply`."""
        return key.startswith(self.prefixes)

    def load(self, store: MetadataStore) -> None:
        """Read what the store holds.

        Raises:
            MetadataCorrupt: an entry cannot be read.
        """
        for prefix in self.prefixes:
            for key, entry in store.scan(prefix):
                self.apply(Change(key, entry.value))

    def change(self, *changes: Change) -> asyncio.Future[int]:
        """Submit changes that belong together, and carry them out.

        Returns:
            Resolves when they are durable.

        Raises:
            MetadataUnavailable: nothing more can be written; nothing has changed.
        """
        durable = self._writer.submit(changes)
        for each in changes:
            self.apply(each)
        return durable


def key_names(key: bytes) -> list[str]:
    """The names in the key of a record, behind its kind: see `record_key`."""
    return [unquote(part) for part in key.decode().split("/")[1:]]
