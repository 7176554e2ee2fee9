"""The requests that a command makes of a broker."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import typer

from routelog.management.commands.api_address import ApiAddress, NotReachable, basic_authorization
from routelog.management.commands.client import (
    LOGIN_FAILED,
    NOT_ALLOWED,
    AnswerRefused,
    ManagementClient,
)


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
    with pytest.raises(NotReachable, match=r"/data: its broker, .* was killed: Connection refused"):
        nobody.get("overview")
    with pytest.raises(NotReachable, match="does not take the token in /data: another process"):
        stranger.get("users", "410")
    with pytest.raises(AnswerRefused, match="not you"):
        stranger.get("users", "401")


def test_who_asks_as_a_user_shows_his_password_and_is_told_why_he_is_refused(url: str) -> None:
    local = ManagementClient(ApiAddress(url, "Bearer t", data_dir=Path("/data")))
    client = local.as_user("u@x", "p:1")
    assert client.get("whoami") == {"a": 1}
    assert Answers.seen[-1][2] == basic_authorization("u@x", "p:1")
    for status, error in (("401", NOT_ALLOWED), ("410", LOGIN_FAILED), ("503", "")):
        with pytest.raises(AnswerRefused) as raised:
            client.get("users", status)
        assert raised.value.error == error
