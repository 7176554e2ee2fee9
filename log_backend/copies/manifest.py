"""The manifest of a backup: what it is of, and where each of its files lies. JSON, a line each::

    {"format": 1, "name": ..., "node": ..., "version": ..., "time": ..., "position": ..., "remote_storage": ...}
    {"object": name, "files": [{"path": ..., "size": ..., "sha256": ..., "padded": ...}, ...]}    any number
    {"end": number of objects, "sha256": of all bytes before this line}

The files of an object lie in it one behind the other. A backup is there when its manifest is whole: it is
written last.
"""

import hashlib
from collections.abc import Sequence

import msgspec

FORMAT = 1


class ManifestDamaged(Exception):
    """A manifest is not whole, or of a later version."""


class BackupHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is of.

    Attributes:
        time: when it was begun, ISO 8601 in UTC.
        position: of the journal; everything durable up to there is in it.
        remote_storage: where the node had its remote segments, which are not in it; empty: it had none.
    """

    format: int = FORMAT
    name: str
    node: str
    version: str
    time: str
    position: int
    remote_storage: str = ""


class BackupFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file: below the data directory; see `CopiedFile.padded`."""

    path: str
    size: int
    sha256: str
    padded: int = 0


class BackupObject(msgspec.Struct, frozen=True):
    """One object of the target, and the files in it."""

    object: str
    files: list[BackupFile]

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(each.size for each in self.files)


class _End(msgspec.Struct, frozen=True):
    end: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """A backup: what it is of, and its objects."""

    header: BackupHeader
    objects: Sequence[BackupObject]

    @property
    def size(self) -> int:
        """Of all files, in bytes."""
        return sum(each.size for each in self.objects)

    def encode(self) -> bytes:
        """Its bytes; many short steps, as a thread beside the event loop takes them."""
        content = bytearray()
        for line in (self.header, *self.objects):
            content += msgspec.json.encode(line) + b"\n"
        end = _End(len(self.objects), hashlib.sha256(content).hexdigest())
        return bytes(content + msgspec.json.encode(end) + b"\n")

    @classmethod
    def decode(cls, content: bytes) -> "Manifest":
        """Read the bytes.

        Raises:
            ManifestDamaged: they are not whole, or of a later version.
        """
        lines = content.splitlines(keepends=True)
        if not content.endswith(b"\n"):
            raise ManifestDamaged("its manifest is cut off")
        try:
            end = msgspec.json.decode(lines[-1], type=_End)
            header = msgspec.json.decode(lines[0], type=BackupHeader)
            if header.format != FORMAT:
                raise ManifestDamaged(f"its format is {header.format}: a later version wrote it")
            objects = [msgspec.json.decode(line, type=BackupObject) for line in lines[1:-1]]
        except (msgspec.MsgspecError, UnicodeDecodeError, IndexError):
            raise ManifestDamaged("its manifest is not whole") from None
        digest = hashlib.sha256(content[: len(content) - len(lines[-1])]).hexdigest()
        if (end.end, end.sha256) != (len(objects), digest):
            raise ManifestDamaged("its manifest is damaged")
        return cls(header, objects)
