"""Where the HTTP API is, and the requests that a command makes of it."""

import json
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import trustme
import typer

from routelog.management.commands.api_address import (
    FILE,
    ApiAddress,
    NotReachable,
    local_api,
    remote_api,
)
from routelog.management.commands.client import AnswerRefused, ManagementClient


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


# Requests


class Answers(BaseHTTPRequestHandler):
    """Answers what the last part of the path is: a status, or a JSON value."""

    seen: ClassVar[list[tuple[str, str, str | None, bytes]]] = []

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append((self.command, self.path, self.headers["Authorization"], body))
        reasons = {
            "401": b'{"error": "not_authorised", "reason": "not you"}',
            "410": b'{"error": "not_authorized", "reason": "Login failed"}',
            "404": b'{"error": "Object Not Found", "reason": "no user \'404\'"}',
            "405": b'{"error": "Object Not Found", "reason": "Not Found"}',
        }
        last = self.path.split("?")[0].rpartition("/")[2]
        status = int(last) if last.isdecimal() else 200
        known = {"text": b"text", "400": b'{"reason": "not_json"}', "500": b"<html>"}
        content = known.get(last) or reasons.get(last, b'{"a": 1}')
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Answers.seen.clear()
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def client(url: str) -> ManagementClient:
    return ManagementClient(ApiAddress(url, "Bearer t"))


def test_parts_of_a_path_are_encoded_and_bodies_are_json(client: ManagementClient) -> None:
    assert client.get("queues", "/", "a b", query="x=1") == {"a": 1}
    client.ask("PUT", "users", "u", body={"tags": []})
    client.ask("PUT", "definitions", body=b"{}")
    assert Answers.seen == [
        ("GET", "/api/queues/%2F/a%20b?x=1", "Bearer t", b""),
        ("PUT", "/api/users/u", "Bearer t", b'{"tags":[]}'),
        ("PUT", "/api/definitions", "Bearer t", b"{}"),
    ]


def test_an_empty_name_is_asked_of_nobody(client: ManagementClient) -> None:
    with pytest.raises(typer.BadParameter, match="a name is empty"):
        client.ask("DELETE", "topic-permissions", "/", "u", "")
    with pytest.raises(typer.BadParameter, match="a name is empty"):
        client.get("definitions", "")
    assert Answers.seen == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("401", "not you"),
        ("404", "no user '404'"),
        ("405", "there is no /api/users/405"),
        ("400", "this is no JSON object"),
        ("503", "status 503"),
    ],
)
def test_a_refusal_says_why(client: ManagementClient, status: str, reason: str) -> None:
    with pytest.raises(AnswerRefused) as raised:
        client.get("users", status)
    assert str(raised.value) == reason


def test_a_port_of_something_else_is_named(client: ManagementClient, url: str) -> None:
    with pytest.raises(AnswerRefused, match=f"^{url}: status 500, which is no answer of a broker"):
        client.get("users", "500")
    with socket.create_server(("127.0.0.1", 0)) as amqp:
        other = f"http://127.0.0.1:{amqp.getsockname()[1]}"

        def answer() -> None:
            connection, _ = amqp.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"AMQP\0\0\x09\x01")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(NotReachable, match=f"at {other} does not speak HTTP"):
            ManagementClient(ApiAddress(other, "Bearer t")).get("overview")
        thread.join()


def test_who_is_no_broker_or_not_there_is_not_reachable(client: ManagementClient) -> None:
    with pytest.raises(NotReachable, match="is no broker"):
        client.get("text")
    nobody = ManagementClient(ApiAddress("http://127.0.0.1:1", "Bearer t"))
    with pytest.raises(NotReachable, match="the broker at http"):
        nobody.get("overview")


def test_an_address_that_a_killed_broker_has_left_is_told(url: str) -> None:
    nobody, stranger = (
        ManagementClient(ApiAddress(each, "Bearer old", data_dir=Path("/data")))
        for each in ("http://127.0.0.1:1", url)
    )
    with pytest.raises(NotReachable, match=r"/data: its broker, .* was killed: .*refused"):
        nobody.get("overview")
    with pytest.raises(NotReachable, match="does not take the token in /data: another process"):
        stranger.get("users", "410")
    with pytest.raises(AnswerRefused, match="not you"):
        stranger.get("users", "401")
