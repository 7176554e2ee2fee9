"""The interface of remote storage: named objects that are written whole, and never changed.

A name is a path, such as `orders/0/00000000000000000042.log`. Every call blocks, so make it in a thread.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from routelog.log_backend.doors.disk import Buffer


class BadBucket(ValueError):
    """The address of a bucket is invalid, or the library for this kind of address is not installed."""


class BucketFailed(Exception):
    """The remote storage failed; the call may be repeated."""


class NoObject(Exception):
    """There is no object of this name."""


class StoredObject(Protocol):
    """An object, open for reading.

    Attributes:
        size: in bytes.
    """

    size: int

    def close(self) -> None:
        """Close it."""

    def read(self, position: int, size: int) -> bytes | bytearray:
        """Up to `size` bytes; fewer only at the end.

        Raises:
            BucketFailed: the storage does not answer.
        """


class Bucket(Protocol):
    """A place for objects.

    Raises:
        BucketFailed: by each call: the storage does not answer, or refuses.
    """

    def folders(self, folder: str) -> list[str]:
        """Names of the folders directly in a folder, sorted; empty if there is no such folder."""

    def objects(self, folder: str) -> Mapping[str, int]:
        """Names of the objects directly in a folder, and their sizes."""

    def write(self, name: str, pieces: Iterable[Buffer], size: int) -> None:
        """Create or replace an object; it is complete and durable when this returns.

        After an error, the object may exist and be incomplete.
        """

    def open(self, name: str) -> StoredObject:
        """Open an object for reading.

        Raises:
            NoObject: there is none.
        """

    def remove(self, name: str) -> None:
        """Delete an object; one that is not there is no error."""

    def remove_folder(self, folder: str) -> None:
        """Delete a folder and the objects in it; there are no folders in it."""
