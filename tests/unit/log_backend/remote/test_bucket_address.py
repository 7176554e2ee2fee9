"""What an address of a bucket may be."""

from pathlib import Path

import pytest

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.remote.bucket import BadBucket
from routelog.log_backend.remote.bucket_address import check_outside, open_bucket, without_secrets


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


@pytest.mark.parametrize("folder", ["data", "data/in/it", "data/../data/x", "link", "link/x"])
def test_a_folder_inside_the_data_directory_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    url = f"file://{tmp_path}/{folder}"
    for data in (tmp_path / "data", tmp_path / "link"):
        with pytest.raises(BadBucket, match="lies inside the data directory"):
            check_outside(url, data)


@pytest.mark.parametrize("address", ["file://{}/data2", "file://{}", "s3://data/in"])
def test_any_other_folder_and_a_bucket_are_taken(tmp_path: Path, address: str) -> None:
    check_outside(address.format(tmp_path), tmp_path / "data")
