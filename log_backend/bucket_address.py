"""Addresses of buckets."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from log_backend.bucket import BadBucket, Bucket
from log_backend.disk import Disk
from log_backend.folder_bucket import FolderBucket


def open_bucket(url: str, disk: Disk) -> Bucket:
    """The bucket at an address: `s3://bucket/prefix?region=...` or `file:///folder`.

    Options of S3 are those of Arrow: `region`, `endpoint_override`, `scheme`; user and password of the address
    are the access key and the secret key, without which the environment has them.

    Raises:
        BadBucket: the address makes no sense, or it is S3 and pyarrow is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/") or parts.query:
            raise BadBucket("expected file:///folder, with the whole path")
        return FolderBucket(disk, Path(unquote(parts.path)))
    if parts.scheme == "s3":
        try:
            from log_backend.s3_bucket import S3Bucket
        except ImportError:
            raise BadBucket("S3 needs pyarrow: pip install 'routelog[remote]'") from None
        return S3Bucket(url)
    raise BadBucket(f"expected s3://... or file:///..., not {parts.scheme or 'no'}://")


def without_secrets(url: str) -> str:
    """An address as it may be shown."""
    scheme, mark, rest = url.partition("://")
    place = rest.partition("?")[0].rpartition("@")[2]
    return f"{scheme}{mark}{place}"
