"""From bytes of HTTP to a handler, and back."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from support.queue_samples import records
from support.waiting import until
from unit.log_backend.open_store import flushed
from unit.management.managed_node import ManagedNode
from yarl import URL

from routelog.log_backend import MetadataUnavailable, NotReplicated
from routelog.management.calls import call, stored_answer
from routelog.management.server import server as server_module
from routelog.management.server.server import HEADERS, REALM, ManagementServer
from routelog.management.views import queues
from routelog.vhosts import Permission, User, UserDirectory

MALFORMED_HOSTS = [
    b"\xff",
    b"\xff.example",
    b"10.0.0.1:99999",
    b"10.0.0.1:abc",
    b"a:b:c",
    b"http://[",
    b"[::1",
    b":80",
]
TOKEN = {"Authorization": "Bearer token"}


class Counted:
    """See `CountedSocket`."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def authenticated(self) -> None:
        self.events.append("authenticated")

    def closed(self) -> None:
        self.events.append("closed")


class Served:
    """A server on a port, and a client of it."""

    def __init__(self, node: ManagedNode, client: aiohttp.ClientSession, port: int) -> None:
        self.node = node
        self.sockets: list[Counted] = []
        self.noted: list[tuple[str, dict[str, object]]] = []
        self.port = port
        self._client = client

    async def ask(
        self, path: str, method: str = "GET", headers: dict[str, str] = TOKEN, **more: Any
    ) -> tuple[int, Any, Any]:
        """Status, headers and content of an answer."""
        url = f"http://127.0.0.1:{self.port}/api{path}"
        async with self._client.request(method, url, headers=headers, **more) as answer:
            content = await answer.read()
            if answer.content_type == "application/json" and content:
                return answer.status, answer.headers, await answer.json()
            return answer.status, answer.headers, content

    async def raw(self, request: bytes) -> bytes:
        """All that comes until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer


@pytest.fixture
async def served(node: ManagedNode) -> AsyncIterator[Served]:
    async with serving(node) as served:
        yield served


@asynccontextmanager
async def serving(node: ManagedNode, silent_seconds: float = 60) -> AsyncIterator[Served]:
    """A server until it is stopped."""
    noted: list[tuple[str, dict[str, object]]] = []
    node.node.vhosts.events.note = lambda event, **said: noted.append((event, said))  # type: ignore[method-assign]
    management = ManagementServer(node.broker, "token", silent_seconds)
    await management.start()

    def accept() -> asyncio.Protocol:
        place.sockets.append(Counted())
        return management.serve(place.sockets[-1])

    listener = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    async with aiohttp.ClientSession() as client:
        place = Served(node, client, listener.sockets[0].getsockname()[1])
        place.noted = noted
        yield place
    listener.close()
    await management.stop()


async def test_an_answer_has_its_headers_and_a_path_may_end_with_a_slash(served: Served) -> None:
    for path in ("/whoami", "/whoami/"):
        status, headers, content = await served.ask(path)
        assert (status, content) == (200, {"name": "", "tags": ["administrator"]})
        assert {name: headers[name] for name in HEADERS} == HEADERS
    assert served.sockets[0].events == ["authenticated", "authenticated"]


async def test_without_credentials_nothing_is_told(served: Served) -> None:
    for headers in ({}, {"Authorization": "Basic " + b64encode(b"u:wrong").decode()}):
        status, answer, content = await served.ask("/overview", headers=headers)
        assert (status, answer["WWW-Authenticate"]) == (401, REALM)
        assert content["error"] == "not_authorized"
    assert [event for event, _ in served.noted] == ["http.refused"] * 2
    assert served.sockets[0].events == []


class Withheld:
    """A request of the administrator `eve` whose head has been answered by nothing yet."""

    def __init__(self, served: Served, method: str, path: str, body: str) -> None:
        self._served, self._body = served, body.encode()
        own = b64encode(b"eve:secret").decode()
        self._head = (
            f"{method} /api{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {own}\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        )

    async def begin(self) -> None:
        """Let the server know the caller, and wait for the body."""
        address = "127.0.0.1", self._served.port
        self._reader, self._writer = await asyncio.open_connection(*address)
        self._writer.write(self._head.encode())
        await until(lambda: any(each.events for each in self._served.sockets))

    async def status(self) -> int:
        """What is answered at last."""
        self._writer.write(self._body)
        line = await asyncio.wait_for(self._reader.readline(), 60)
        self._writer.close()
        return int(line.split()[1])


@pytest.mark.parametrize(
    "change",
    [
        lambda users: users.delete_user("eve"),
        lambda users: users.set_tags("eve", ("management",)),
        lambda users: users.put_user(User("eve", "hash of another", ("administrator",))),
    ],
)
async def test_a_body_that_comes_late_does_not_keep_its_callers_rights(
    served: Served, change: Callable[[UserDirectory], Awaitable[object]]
) -> None:
    users = served.node.users
    await users.put_user(User("eve", "hash of secret", ("administrator",)))
    request = Withheld(served, "PUT", "/users/evil", '{"password": "x", "tags": "administrator"}')
    await request.begin()
    await change(users)
    assert await request.status() == 401
    assert users.find("evil") is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/permissions/v/eve", '{"configure": ".*", "write": ".*", "read": ".*"}'),
        ("/topic-permissions/v/eve", '{"exchange": "amq.topic", "write": ".*", "read": ".*"}'),
        ("/vhost-limits/v/max-queues", '{"value": 5}'),
        ("/policies/v/p", '{"pattern": "", "definition": {"max-length": 1}}'),
        ("/queues/v/q", "{}"),
    ],
)
@pytest.mark.parametrize("is_made_again", [False, True])
async def test_a_body_that_comes_late_is_not_for_the_next_vhost_of_the_name(
    served: Served, path: str, body: str, is_made_again: bool
) -> None:
    node, vhosts = served.node, served.node.node.vhosts
    await node.users.put_user(User("eve", "hash of secret", ("administrator",)))
    await vhosts.add("v")
    await node.users.set_permissions("eve", "v", Permission(".*", ".*", ".*"))
    request = Withheld(served, "PUT", path, body)
    await request.begin()
    await vhosts.delete("v")
    if is_made_again:
        await vhosts.add("v")
    assert await request.status() in (400, 404)
    again = [vhost for vhost in vhosts.all() if vhost.name == "v"]
    assert [(vhost.limits, [*vhost.queues]) for vhost in again] == [({}, [])] * is_made_again
    assert node.users.permissions.of_user("eve") == {}


@pytest.mark.parametrize("kind", ["queues", "exchanges"])
@pytest.mark.parametrize(
    "change",
    [
        lambda users: users.delete_user("eve"),
        lambda users: users.set_permissions("eve", "/", Permission("other", ".*", ".*")),
    ],
)
async def test_who_waits_until_a_name_is_free_does_not_keep_his_rights(
    served: Served,
    kind: str,
    change: Callable[[UserDirectory], Awaitable[object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users, vhost = served.node.users, served.node.vhost
    await users.put_user(User("eve", "hash of secret", ("administrator",)))
    await users.set_permissions("eve", "/", Permission(".*", ".*", ".*"))

    async def until_free(*_: str) -> None:
        await change(users)

    monkeypatch.setattr(vhost, "until_free", until_free)
    own = {"Authorization": "Basic " + b64encode(b"eve:secret").decode()}
    body = {"type": "topic"} if kind == "exchanges" else {}
    assert (await served.ask(f"/{kind}/%2F/mine", "PUT", own, json=body))[0] == 401
    assert "mine" not in vhost.queues
    assert not vhost.routing.has_exchange("mine")


async def test_a_body_that_does_not_come_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "BODY_SECONDS_MAX", 0.05)
    for head in (
        "PUT /api/users/u HTTP/1.1\r\nAuthorization: Bearer token",
        "POST /api/login HTTP/1.1",
        "POST /sign-in HTTP/1.1",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(f"{head}\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n".encode())
        line = await asyncio.wait_for(reader.readline(), 60)
        assert line == b"HTTP/1.1 408 Request Timeout\r\n"
        writer.close()


@pytest.mark.parametrize("host", MALFORMED_HOSTS)
async def test_a_malformed_host_is_refused_and_is_no_fault_of_ours(
    served: Served, host: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for path in (b"/", b"/api/overview", b"/static/none"):
        head = b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (path, host)
        assert (await served.raw(head)).split()[1] == b"400", path
    assert not caplog.records


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_body_that_cannot_be_unpacked_is_refused_and_is_no_fault_of_ours(
    served: Served, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    for head in (
        "PUT /api/users/u HTTP/1.1\r\nAuthorization: Bearer token",
        "POST /api/login HTTP/1.1",
        "POST /sign-in HTTP/1.1",
    ):
        said = f"Host: localhost\r\nConnection: close\r\nContent-Encoding: {encoding}"
        request = f"{head}\r\n{said}\r\nContent-Length: 8\r\n\r\nnonsense"
        assert (await served.raw(request.encode())).split()[1] == b"400", head
    assert not caplog.records


async def test_errors_of_paths_and_methods_are_json(served: Served) -> None:
    assert (await served.ask("/sheep"))[::2] == (
        404,
        {"error": "Object Not Found", "reason": "Not Found"},
    )
    status, headers, content = await served.ask("/queues", "DELETE")
    assert (status, headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert content["reason"] == "Method Not Allowed"
    status, headers, content = await served.ask("/queues", "OPTIONS", headers={})
    assert (status, headers["Allow"], content) == (200, "GET, HEAD, OPTIONS", b"")


async def test_a_tag_and_the_vhost_decide_who_is_answered(served: Served) -> None:
    await served.node.user("u", "management")
    own = {"Authorization": "Basic " + b64encode(b"u:secret").decode()}
    for path, expected in (
        ("/queues/%2F", (200, [])),
        ("/nodes", (401, {"error": "not_authorised", "reason": "Not monitor user"})),
        ("/users", (401, {"error": "not_authorised", "reason": "Not administrator user"})),
        ("/queues/none", (404, {"error": "Object Not Found", "reason": "no vhost 'none'"})),
    ):
        assert (await served.ask(path, headers=own))[::2] == expected
    await served.node.users.clear_permissions("u", "/")
    status, _, content = await served.ask("/queues/%2F", headers=own)
    assert (status, content["reason"]) == (401, "User not authorised to access virtual host")


async def test_a_token_for_logs_changes_nothing(served: Served) -> None:
    await served.node.user("u")
    token = served.node.tokens.issue(served.node.users.get("u"), "/", 60)
    of_token = {"Authorization": f"Bearer {token}"}
    assert (await served.ask("/logs/%2F", headers=of_token))[::2] == (200, [])
    status, _, content = await served.ask("/logs/%2F/q/readers/r", "PUT", of_token, json={})
    assert (status, "reads only" in content["reason"]) == (401, True)


async def test_a_change_is_answered_and_noted_without_its_query(served: Served) -> None:
    status, headers, content = await served.ask("/queues/%2F/q?secret=1", "PUT", json={})
    assert (status, content) == (201, b"")
    status, headers, _ = await served.ask("/bindings/%2F/e/amq.topic/q/q", "POST", json={})
    assert (status, headers["Location"]) == (201, "q/~")
    assert "secret" not in str(served.noted)


async def test_a_name_may_hold_any_character(served: Served) -> None:
    for name in ("{a}", "a/b", "%2F", "?", "}{"):
        path = f"/queues/%2F/{quote(name, safe='')}"
        url = URL(f"http://127.0.0.1:{served.port}/api{path}", encoded=True)
        async with served._client.put(url, headers=TOKEN, json={}) as answer:
            assert answer.status == 201, name
        assert name in served.node.vhost.queues


async def test_columns_are_cut_out_of_one_thing_and_of_many(served: Served) -> None:
    await served.node.queue("q")
    assert (await served.ask("/queues/%2F/q?columns=name,arguments"))[2] == {
        "name": "q",
        "arguments": {},
    }
    assert (await served.ask("/queues?columns=name"))[2] == [{"name": "q"}]


async def test_a_large_answer_is_written_while_it_is_made(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "STREAM_BYTES", 100)
    await served.node.queue("q")
    status, headers, content = await served.ask("/definitions?download=../a b%22.json")
    assert (status, [queue["name"] for queue in content["queues"]]) == (200, ["q"])
    assert headers["Content-Disposition"] == 'attachment; filename="..ab.json"'
    assert {name: headers[name] for name in HEADERS} == HEADERS
    status, _, content = await served.ask("/definitions", "HEAD")
    assert (status, content) == (200, b"")


async def test_a_fault_of_ours_is_told_to_the_log_only(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("made to fail")

    monkeypatch.setattr(queues, "queue_row", fail)
    await served.node.queue("q")
    with caplog.at_level(logging.ERROR):
        status, _, content = await served.ask("/queues/%2F/q")
    assert (status, content["reason"]) == (500, "the broker failed; see its log")
    assert "made to fail" in caplog.text


async def test_what_is_no_http_is_answered_without_quoting_it(served: Served) -> None:
    answer = await served.raw(b"GET / HTTP/1.1\r\nAuthorization secret\r\n\r\n")
    assert answer.split()[1] == b"400"
    assert b"malformed request" in answer
    assert b"secret" not in answer
    assert served.noted[0][0] == "http.malformed"
    assert "secret" not in str(served.noted)
    await until(lambda: served.sockets[0].events == ["closed"])


async def test_who_says_nothing_is_dropped(node: ManagedNode) -> None:
    async with serving(node, 0.05) as served:
        assert await served.raw(b"") == b""
        assert await served.raw(b"GET / HTTP/1.1\r\n") == b""  # half a request is none
        assert (await served.ask("/whoami"))[0] == 200
        await until(lambda: [each.events for each in served.sockets[:2]] == [["closed"]] * 2)


# What is stored


async def test_stored_bytes_are_sent_as_they_are(served: Served) -> None:
    queue = await served.node.queue("s", x_queue_type="stream")
    queue.publish(records(*"abcde"), True)
    await flushed(served.node.node.logs)
    path = "/logs/%2F/s/0/records?start=0&end=5"
    status, headers, content = await served.ask(path)
    assert (status, headers["RouteLog-Offsets"]) == (200, "0-5")
    assert headers["Content-Type"] == "application/octet-stream"
    (segment,) = queue.partitions[0].log.segments
    assert content == segment.path.read_bytes()[: len(content)]
    assert len(content) == int(headers["Content-Length"]) == segment.written_size
    status, headers, content = await served.ask(path, "HEAD")
    assert (status, content, int(headers["Content-Length"])) == (200, b"", segment.written_size)


async def test_only_so_many_stretches_are_sent_at_a_time(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_answer, "SENDS_MAX", 0)
    queue = await served.node.queue("s", x_queue_type="stream")
    queue.publish(records("a"), True)
    await flushed(served.node.node.logs)
    status, _, content = await served.ask("/logs/%2F/s/0/records?start=0&end=1")
    assert (status, content["error"]) == (503, "busy")


@pytest.mark.parametrize("error", [NotReplicated, MetadataUnavailable])
async def test_a_change_of_unknown_outcome_is_in_the_log(
    node: ManagedNode, error: type[Exception]
) -> None:
    async def too_late(answer: Awaitable[object]) -> object:
        await answer
        raise error("too few nodes have stored it; they may store it yet")

    node.broker = replace(node.broker, in_time=too_late)
    async with serving(node) as served:
        await node.users.put_user(User("eve", "hash of secret", ()))
        path = "/user-limits/eve/max-channels"
        status, _, _ = await served.ask(path, "PUT", json={"value": 3})
        assert (status, node.users.limits("eve")) == (503, {"max-channels": 3})
        (said,) = [said for event, said in served.noted if event == "http.changed"]
        assert said == {"method": "PUT", "path": f"/api{path}", "outcome": "unknown"}
        await served.ask(path)
        assert len(served.noted) == 1


async def test_a_dry_run_is_no_change_in_the_log(served: Served) -> None:
    queue = await served.node.queue("q")
    queue.publish(records("x"), True)
    for dry_run, count in ((True, 0), (False, 1)):
        served.noted.clear()
        body = {"mode": "delete", "filter": {}, "dry_run": dry_run}
        status, _, answer = await served.ask("/queues/%2F/q/move", method="POST", json=body)
        assert (status, answer["dry_run"]) == (200, dry_run)
        changes = [said for event, said in served.noted if event == "http.changed"]
        assert len(changes) == count, served.noted
