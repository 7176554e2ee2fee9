"""Entries of a metadata store that were read in one go, for who asks for very many of them."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain
from typing import Protocol

from routelog.log_backend.metadata.metadata import Entry, MetadataStore


class StoredEntries(Protocol):
    """What reads entries by their keys: see `MetadataStore`."""

    def get(self, key: bytes) -> Entry | None:
        """The entry at a key."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, Entry]]:
        """The entries whose keys begin with a prefix, in order."""


class ReadAhead:
    """The entries below some prefixes, as they were when it was made.

    Cost:
        3 us an entry, where `MetadataStore` takes 10 for `get` and 50 for `scan`.
    """

    def __init__(self, metadata: MetadataStore, *prefixes: bytes) -> None:
        self._entries = dict(chain.from_iterable(map(metadata.scan, sorted(prefixes))))
        self._keys = list(self._entries)

    def get(self, key: bytes) -> Entry | None:
        """See `StoredEntries`."""
        return self._entries.get(key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, Entry]]:
        """See `StoredEntries`."""
        for at in range(bisect_left(self._keys, prefix), len(self._keys)):
            key = self._keys[at]
            if not key.startswith(prefix):
                break
            yield key, self._entries[key]
