"""S3 through Arrow: what an address says is kept, and a storage that is silent is not waited for long."""

from __future__ import annotations

import socket

import pytest

from routelog.log_backend.remote import s3_bucket
from routelog.log_backend.remote.bucket import BucketFailed
from routelog.log_backend.remote.s3_bucket import S3Bucket


def test_a_storage_that_says_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_bucket, "_LIMITS", {**s3_bucket._LIMITS, "request_timeout": 0.5})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        bucket = S3Bucket(
            f"s3://key:s%2Fcret@bucket/prefix?endpoint_override=127.0.0.1:{port}&scheme=http&region=eu"
        )
        options = bucket._files.__reduce__()[1][0]
        assert (options["access_key"], options["secret_key"]) == ("key", "s/cret")
        assert (options["region"], options["scheme"]) == ("eu", "http")
        with pytest.raises(BucketFailed, match="Timeout"):
            bucket.open("prefix/object")
