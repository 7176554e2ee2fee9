"""What an address of a bucket may be."""

import pytest

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.remote.bucket import BadBucket
from routelog.log_backend.remote.bucket_address import open_bucket, without_secrets


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", r"file:///\.\.\.$"),
        ("/mnt/archive", r"file:///\.\.\.$"),
        ("ftp://host/x", "not ftp://"),
        ("file://folder", "the whole path"),
        ("file:///folder?region=x", "the whole path"),
        ("s3://", "names no bucket"),
        ("s3://key:secret@", "names no bucket"),
        ("s3://bucket?colour=blue", "colour"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, reason: str) -> None:
    with pytest.raises(BadBucket, match=reason):
        open_bucket(url, SystemDisk())


def test_an_address_is_shown_without_its_keys() -> None:
    url = "s3://key:secret%2Fx@bucket/prefix?region=a&secret_key=b"
    assert without_secrets(url) == "s3://bucket/prefix"
    assert without_secrets("file:///folder/x") == "file:///folder/x"
    assert without_secrets("") == ""
