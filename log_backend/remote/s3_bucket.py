"""A bucket of Amazon's S3, or of another storage with the same protocol, through Arrow."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyarrow import ArrowException
from pyarrow.fs import (
    AwsStandardS3RetryStrategy,
    FileSelector,
    FileSystem,
    FileType,
    S3FileSystem,
)

from routelog.log_backend.doors.disk import Buffer
from routelog.log_backend.remote.bucket import BadBucket, BucketFailed, NoObject


@contextmanager
def _told() -> Iterator[None]:
    """Turn errors of Arrow into those of a bucket."""
    try:
        yield
    except FileNotFoundError as error:
        raise NoObject(str(error)) from None
    except (OSError, ArrowException) as error:
        raise BucketFailed(str(error)) from error


class S3Object:
    """Reads an object: each read is a request."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.size: int = file.size()

    def close(self) -> None:
        """Close it."""
        with suppress(OSError):
            self._file.close()

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end."""
        with _told():
            content: bytes = self._file.read_at(size, position)
        return content


class S3Bucket:
    """Keeps objects in a bucket of S3.

    Raises:
        BadBucket: the address is invalid.
    """

    def __init__(self, url: str) -> None:
        try:
            found, self._root = FileSystem.from_uri(url)
            # An address has no limits of time: what Arrow pickles is all else that it says.
            _, (options,) = found.__reduce__()
            self._files = S3FileSystem(**{**options, **_LIMITS})
        except (OSError, ArrowException) as error:
            raise BadBucket(str(error)) from None

    def folders(self, folder: str) -> list[str]:
        """Names of the folders directly in a folder, sorted; empty if there is no such folder."""
        return sorted(
            each.base_name for each in self._listed(folder) if each.type == FileType.Directory
        )

    def objects(self, folder: str) -> Mapping[str, int]:
        """Names of the objects directly in a folder, and their sizes."""
        found = self._listed(folder)
        return {each.base_name: each.size for each in found if each.type == FileType.File}

    def write(self, name: str, pieces: Iterable[Buffer], size: int) -> None:
        """Create or replace an object; it is complete and durable when this returns."""
        path = self._path(name)
        with _told():
            stream = self._files.open_output_stream(path, metadata=_CONTENT)
            try:
                for piece in pieces:
                    stream.write(piece)
            finally:
                stream.close()  # an object that is not complete gets its name, too: see `Bucket.write`
            there = self._files.get_file_info(path).size
        if there != size:
            raise BucketFailed(f"{name}: {there} bytes are there, not {size}")

    def open(self, name: str) -> S3Object:
        """Open an object for reading."""
        with _told():
            return S3Object(self._files.open_input_file(self._path(name)))

    def remove(self, name: str) -> None:
        """Delete an object; one that is not there is no error."""
        with suppress(NoObject), _told():
            self._files.delete_file(self._path(name))

    def remove_folder(self, folder: str) -> None:
        """Delete a folder and the objects in it; there are no folders in it."""
        with suppress(NoObject), _told():
            self._files.delete_dir(self._path(folder))

    def _listed(self, folder: str) -> Any:
        with _told():
            return self._files.get_file_info(FileSelector(self._path(folder), allow_not_found=True))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root


# Arrow's own are minutes, and a stop waits for requests under way. Our callers try again themselves.
_LIMITS = {
    "connect_timeout": 5.0,
    "request_timeout": 10.0,  # seconds without a byte
    "retry_strategy": AwsStandardS3RetryStrategy(max_attempts=2),
}
_CONTENT = {"Content-Type": "application/octet-stream"}
