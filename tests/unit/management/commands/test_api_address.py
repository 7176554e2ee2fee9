"""Where the HTTP API is, and what lets a command in."""

import json
from base64 import b64encode
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import trustme

from routelog.management.commands.api_address import FILE, NotReachable, local_api, remote_api


def no_password(user: str) -> str:
    raise AssertionError(f"asked for the password of {user}")


def test_the_address_on_this_machine_is_a_file(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "t"}))
    address = local_api(tmp_path)
    assert (address.url, address.authorization) == ("http://127.0.0.1:1", "Bearer t")
    assert address.data_dir == tmp_path
    assert "Bearer" not in repr(address)


@pytest.mark.parametrize("content", ["", "{", "{}", '{"url": 1, "token": "t"}'])
def test_a_file_that_is_none_is_told(tmp_path: Path, content: str) -> None:
    with pytest.raises(NotReachable, match="no broker with management runs"):
        local_api(tmp_path)
    (tmp_path / FILE).write_text(content)
    with pytest.raises(NotReachable, match=FILE):
        local_api(tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    with pytest.raises(NotReachable, match="directory"):
        local_api(tmp_path)


def test_an_api_elsewhere_has_a_user_and_asks_for_his_password() -> None:
    address = remote_api("http://u%40x:p%3A1@host:1", "", no_password)
    assert (address.url, address.context) == ("http://host:1", None)
    assert address.authorization == "Basic " + b64encode(b"u@x:p:1").decode()
    asked = remote_api("http://u@[::1]:1/path", "", lambda user: f"of {user}")
    assert asked.url == "http://[::1]:1"
    assert asked.authorization == "Basic " + b64encode(b"u:of u").decode()


def test_an_api_with_tls_trusts_whom_the_file_names(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(file)
    address = remote_api("https://u:p@host:1", str(file), no_password)
    assert isinstance(address.connection(), HTTPSConnection)
    for wrong in (tmp_path / "missing.pem", Path(__file__)):
        with pytest.raises(NotReachable, match=f"--ca-file {wrong}"):
            remote_api("https://u:p@host:1", str(wrong), no_password)


@pytest.mark.parametrize(
    "url", ["host", "ftp://u@host", "http://host", "http://u@", "http://u@h:x"]
)
def test_an_url_that_leads_nowhere_is_refused(url: str) -> None:
    with pytest.raises(NotReachable, match="--url"):
        remote_api(url, "", no_password)
