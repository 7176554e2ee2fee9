"""Addresses of buckets."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.remote.bucket import BadBucket, Bucket
from routelog.log_backend.remote.folder_bucket import FolderBucket


def open_bucket(url: str, disk: Disk) -> Bucket:
    """Return the bucket at an address: `s3://bucket/prefix?region=...` or `file:///folder`.

    Options of S3 are those of Arrow: `region`, `endpoint_override`, `scheme`. User and password of the address
    are access key and secret key; without them, the environment has the keys.

    Raises:
        BadBucket: the address is invalid, or it is S3 and pyarrow is not installed.
    """
    check_address(url)
    if urlsplit(url).scheme == "file":
        return FolderBucket(disk, Path(unquote(urlsplit(url).path)))
    try:
        from routelog.log_backend.remote.s3_bucket import S3Bucket
    except ImportError:
        raise BadBucket("S3 needs pyarrow: install routelog-broker[remote]") from None
    return S3Bucket(url)


def check_address(url: str) -> None:
    """Check an address without connecting to it.

    Raises:
        BadBucket: the address is invalid.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("file", "s3"):
        found = f", not {parts.scheme}://" if parts.scheme else ""
        raise BadBucket(f"expected s3://... or file:///...{found}")
    if parts.scheme == "s3" and not parts.netloc.rpartition("@")[2]:
        raise BadBucket("the address names no bucket")
    is_whole = parts.path.startswith("/") and not (parts.netloc or parts.query)
    if parts.scheme == "file" and not is_whole:
        raise BadBucket("expected file:///folder, with the whole path")


def check_outside(url: str, data: Path) -> None:
    """Refuse a folder inside a data directory, where what is stored would be part of what is copied.

    Args:
        url: a valid address.

    Raises:
        BadBucket: it is that directory, or lies in it, links followed.
    """
    parts = urlsplit(url)
    if parts.scheme == "file" and Path(unquote(parts.path)).resolve().is_relative_to(
        data.resolve()
    ):
        raise BadBucket(f"{without_secrets(url)} lies inside the data directory {data}")


def without_secrets(url: str) -> str:
    """Return an address without user, password and options."""
    scheme, mark, rest = url.partition("://")
    place = rest.partition("?")[0].rpartition("@")[2]
    return f"{scheme}{mark}{place}"
