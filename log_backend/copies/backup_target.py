"""Where backups are kept: a folder or a bucket, with any number of them.

backups/<name>/manifest.jsonl     see manifest.py; written last
backups/<name>/files-<random>     what only this backup has
segments/<key>-<node>             a sealed segment with its indexes; backups of one node share them
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

from routelog.log_backend.copies.manifest import (
    BackupFile,
    BackupObject,
    Manifest,
    ManifestDamaged,
)
from routelog.log_backend.doors.disk import Buffer
from routelog.log_backend.remote.bucket import Bucket, BucketFailed, NoObject, StoredObject

BACKUPS, SEGMENTS = "backups", "segments"
MANIFEST = "manifest.jsonl"
OWN_FILES = "files"  # and a random part: others may make a backup of this name, too
PIECE_BYTES = 1024 * 1024  # read and written at once: what a copy has in memory

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

Progress = Callable[[int], None]  # bytes read


class BackupDamaged(Exception):
    """A backup cannot be read back; the text names the file."""


class NoBackup(Exception):
    """There is no backup of this name, or none at all."""


def is_backup_name(name: str) -> bool:
    """Whether a backup may be called so: it becomes a part of a path."""
    return _NAME.fullmatch(name) is not None


class BackupTarget:
    """The backups in one bucket; every call blocks.

    Raises:
        BucketFailed: by each call: the storage does not answer, or refuses.
    """

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket

    def names(self) -> list[str]:
        """Of all backups that were begun here, sorted."""
        return self.bucket.folders(BACKUPS)

    def manifest(self, name: str) -> Manifest:
        """What a backup has.

        Raises:
            NoBackup: there is none, or one that was not finished.
            BackupDamaged: its manifest cannot be read.
        """
        try:
            with closing(self.bucket.open(manifest_name(name))) as found:
                content = bytes(found.read(0, found.size))
        except NoObject:
            what = "finished backup" if name in self.names() else "backup"
            raise NoBackup(f"no {what} '{name}'") from None
        try:
            return Manifest.decode(content)
        except ManifestDamaged as error:
            raise BackupDamaged(f"backup '{name}': {error}") from None

    def whole(self) -> Iterator[Manifest]:
        """All that can be read."""
        for name in self.names():
            with suppress(NoBackup, BackupDamaged):
                yield self.manifest(name)

    def last(self) -> Manifest:
        """The last that can be read.

        Raises:
            NoBackup: there is none.
        """
        last = max(self.whole(), key=lambda each: each.header.time, default=None)
        if last is None:
            raise NoBackup("no whole backup")
        return last

    def verify(self, manifest: Manifest, progress: Progress = lambda size: None) -> Iterator[str]:
        """Read a backup whole; what is wrong with it, a line each."""
        for stored in manifest.objects:
            try:
                for _, pieces in self.files(stored):
                    for piece in pieces:
                        progress(len(piece))
            except BackupDamaged as error:
                yield str(error)

    def files(self, stored: BackupObject) -> Iterator[tuple[BackupFile, Iterator[Buffer]]]:
        """The files of an object, and the content of each, to be used up before the next.

        Raises:
            BackupDamaged: the object is not there or has another size, or at the end of a file: what was read
                is not what was written.
        """
        try:
            found = self.bucket.open(stored.object)
        except NoObject:
            raise BackupDamaged(f"{stored.object} is missing: {_paths(stored)}") from None
        with closing(found):
            if found.size != stored.size:
                sizes = f"{found.size} bytes, not {stored.size}"
                raise BackupDamaged(f"{stored.object} has {sizes}: {_paths(stored)}")
            at = 0
            for file in stored.files:
                yield file, _content(found, at, file)
                at += file.size


def manifest_name(name: str) -> str:
    """The object with the manifest of a backup."""
    return f"{BACKUPS}/{name}/{MANIFEST}"


def _paths(stored: BackupObject) -> str:
    first, *others = (each.path for each in stored.files)
    return f"{first} and {len(others)} more" if others else first


def _content(found: StoredObject, at: int, file: BackupFile) -> Iterator[Buffer]:
    digest, end = hashlib.sha256(), at + file.size
    while at < end:
        piece = found.read(at, min(PIECE_BYTES, end - at))
        if not piece:
            raise BucketFailed(f"{file.path}: the storage gives too little")
        digest.update(piece)
        at += len(piece)
        yield piece
    if digest.hexdigest() != file.sha256:
        raise BackupDamaged(f"{file.path} is damaged: its checksum is another one")
