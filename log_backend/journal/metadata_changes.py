"""The entry of the journal that changes the metadata: topology, users, policies, limits, log tokens.

All integers are little-endian; the content of an entry of kind 5, which is of no partition (0)::

     0  count  u32  of changes
     4  zeros  4
     8  changes, one behind the other:
           key length u32 | value length u32, 0xffffffff: the key is deleted | key | value
        zeros, to a multiple of 8

The changes of one entry belong together. They say what is, so carrying them out once more, and all that follow,
changes nothing.
"""

import struct
from collections.abc import Sequence

from routelog.log_backend.metadata.metadata import Change

METADATA = 5
OF_NO_PARTITION = 0

_COUNT = struct.Struct("<I4x")
_LENGTHS = struct.Struct("<II")
_DELETED = 0xFFFF_FFFF


class MetadataChanges:
    """Changes of metadata that a crash takes all of, or nothing."""

    kind = METADATA

    __slots__ = ("changes",)

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = changes

    def encode(self) -> bytes:
        """The content of a METADATA entry."""
        parts = [_COUNT.pack(len(self.changes))]
        for each in self.changes:
            value = each.value
            size = _DELETED if value is None else len(value)
            parts += (_LENGTHS.pack(len(each.key), size), each.key, value or b"")
        content = b"".join(parts)
        return content + bytes(-len(content) % 8)

    @classmethod
    def decode(cls, content: bytes | memoryview) -> "MetadataChanges":
        """Read the content of a METADATA entry.

        Raises:
            struct.error, ValueError: it is none.
        """
        (count,) = _COUNT.unpack_from(content)
        at = _COUNT.size
        changes: list[Change] = []
        for _ in range(count):
            key_length, value_length = _LENGTHS.unpack_from(content, at)
            at += _LENGTHS.size
            key = bytes(content[at : at + key_length])
            at += key_length
            value = None
            if value_length != _DELETED:
                value = bytes(content[at : at + value_length])
                at += value_length
            changes.append(Change(key, value))
        if at > len(content):
            raise ValueError("its changes go beyond its end")
        return cls(changes)
