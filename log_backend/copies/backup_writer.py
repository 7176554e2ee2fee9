"""Writes a copy of a store into a backup target: the part that blocks and runs in a thread.

Other brokers may write to the target at the same time, perhaps under the same name, and some have the same
segments: a standby that was promoted, nodes of a cluster. So nobody writes over an object of another one: own
files have a random part in their name, segments their node's, and a manifest is written where none is. What a
backup of this node has is used again. A backup that fails removes what only it has.
"""

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from routelog.log_backend.copies.backup_target import (
    BACKUPS,
    OWN_FILES,
    PIECE_BYTES,
    SEGMENTS,
    BackupTarget,
    manifest_name,
)
from routelog.log_backend.copies.data_copy import CopiedFile, CopyFailed, DataCopy
from routelog.log_backend.copies.manifest import BackupFile, BackupHeader, BackupObject, Manifest
from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import Buffer
from routelog.log_backend.doors.randomness import random_name
from routelog.log_backend.remote.bucket import BucketFailed

NODE_CHARACTERS = 8  # of the SHA-256 of a node's name, in those of its segments
WAIT_SECONDS_MAX = 0.5  # between two looks whether the copy is still there
TAIL_BYTES = 4_096  # of a segment, which tell it from another one, beside its indexes


class BackupExists(Exception):
    """There is a backup of this name."""


class BackupWriter:
    """Writes one backup.

    Attributes:
        bytes_total: of all files of the copy.
        bytes_done: of those that are in the target, be it from an earlier backup.
        bytes_kept: of those that were there before.

    Args:
        bytes_per_second: of reading; 0 is as fast as it goes.
        stopping: ends what is under way.
    """

    def __init__(
        self,
        target: BackupTarget,
        clock: Clock,
        *,
        bytes_per_second: int,
        stopping: threading.Event,
    ) -> None:
        self.bytes_total = self.bytes_done = self.bytes_kept = 0
        self._target = target
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._stopping = stopping
        self._mark = random_name()  # in the name of its own files
        self._written: list[str] = []  # objects, be they whole or not
        self._began = 0.0
        self._read = 0

    def check(self, name: str) -> None:
        """See whether a backup may be made under a name.

        Raises:
            BackupExists: there is one.
            BucketFailed: the target does not answer.
        """
        folder = manifest_name(name).rpartition("/")[0]
        if manifest_name(name).rpartition("/")[2] in self._target.bucket.objects(folder):
            raise BackupExists(f"there is a backup '{name}' already")

    def write(self, copy: DataCopy, header: BackupHeader) -> Manifest:
        """Write all files of a copy that the target lacks, and then the manifest.

        Raises:
            CopyFailed, BucketFailed: there is no such backup.
            BackupExists: another one of this name was finished meanwhile.
        """
        self._began = self._clock.monotonic()
        self.bytes_total = sum(each.size for each in copy.files)
        try:
            return self._write(copy, header)
        except BaseException:
            with suppress(BucketFailed):
                self._remove_own(f"{BACKUPS}/{header.name}")
            raise

    def _remove_own(self, folder: str) -> None:
        bucket = self._target.bucket
        for name in reversed(self._written):  # the manifest first
            if name.startswith(f"{folder}/"):
                bucket.remove(name)
        if not bucket.objects(folder):
            bucket.remove_folder(folder)

    def _write(self, copy: DataCopy, header: BackupHeader) -> Manifest:
        own = [each for each in copy.files if not each.is_sealed]
        objects = [self._stored(copy, f"{BACKUPS}/{header.name}/{OWN_FILES}-{self._mark}", own)]
        known = self._known(header.node)
        node = hashlib.sha256(header.node.encode()).hexdigest()[:NODE_CHARACTERS]
        for files in _segments(copy.files):
            name = f"{SEGMENTS}/{self._key(copy, files)}-{node}"
            stored = known.get(name)
            if stored is None:
                stored = self._stored(copy, name, files)
            else:
                self.bytes_kept += stored.size
                self.bytes_done += stored.size
            objects.append(stored)
        manifest = Manifest(header, objects)
        self.check(header.name)
        content = manifest.encode()
        self._put(manifest_name(header.name), [content], len(content))
        return manifest

    def _put(self, name: str, pieces: Iterable[Buffer], size: int) -> None:
        self._written.append(name)
        self._target.bucket.write(name, pieces, size)

    def _known(self, node: str) -> Mapping[str, BackupObject]:
        # By their names, the segments that whole backups of this node have.
        sizes = self._target.bucket.objects(SEGMENTS)
        return {
            each.object: each
            for earlier in self._target.whole()
            if earlier.header.node == node
            for each in earlier.objects
            if sizes.get(each.object.rpartition("/")[2]) == each.size
        }

    def _key(self, copy: DataCopy, files: Sequence[CopiedFile]) -> str:
        # The times of the index are microseconds: no two segments have the same.
        digest = hashlib.sha256()
        for each in files:
            digest.update(f"{each.path} {each.size}\n".encode())
            begin = 0 if each.path.endswith("index") else max(0, each.size - TAIL_BYTES)
            for piece in self._pieces(copy, each, begin):
                digest.update(piece)
        return digest.hexdigest()

    def _stored(self, copy: DataCopy, name: str, files: Sequence[CopiedFile]) -> BackupObject:
        stored: list[BackupFile] = []

        def pieces() -> Iterator[bytearray]:
            for each in files:
                digest = hashlib.sha256()
                for piece in self._pieces(copy, each):
                    digest.update(piece)
                    yield piece
                    self.bytes_done += len(piece)
                file = BackupFile(each.path, each.size, digest.hexdigest(), each.padded)
                stored.append(file)

        self._put(name, pieces(), sum(each.size for each in files))
        return BackupObject(name, stored)

    def _pieces(self, copy: DataCopy, file: CopiedFile, at: int = 0) -> Iterator[bytearray]:
        while at < file.size:
            copy.check()
            if self._stopping.is_set():
                raise CopyFailed("the broker stops")
            piece = copy.read(file, at, PIECE_BYTES)
            at += len(piece)
            self._read += len(piece)
            yield piece
            self._keep_pace(copy)

    def _keep_pace(self, copy: DataCopy) -> None:
        if not self._bytes_per_second:
            return
        due = self._began + self._read / self._bytes_per_second
        while (ahead := due - self._clock.monotonic()) > 0 and not self._stopping.is_set():
            copy.check()
            self._stopping.wait(min(ahead, WAIT_SECONDS_MAX))


def _segments(files: Sequence[CopiedFile]) -> list[list[CopiedFile]]:
    # Files of one sealed segment: they differ by their suffixes.
    segments: dict[PurePosixPath, list[CopiedFile]] = {}
    for each in files:
        if each.is_sealed:
            segments.setdefault(PurePosixPath(each.path).with_suffix(""), []).append(each)
    return list(segments.values())
