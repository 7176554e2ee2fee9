"""Which endpoint is asked, and what its errors mean."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from support.ports import free_port

from routelog.mirror_cluster.coordination.coordinator import (
    CoordinatorRefused,
    CoordinatorUnavailable,
)
from routelog.mirror_cluster.coordination.etcd_coordinator import EtcdCoordinator
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdEndpoints, EtcdGateway

Answer = Callable[[web.Request], web.Response]
HANGS_SECONDS = 3.0  # for who says nothing; the good member has them, too
NO_LEADER = {"code": 14, "error": "etcdserver: no leader", "message": "etcdserver: no leader"}


class Member:
    """Answers as it is told, and counts."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.paths: list[str] = []
        self.tokens: list[str | None] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        self.tokens.append(request.headers.get("Authorization"))
        if not self.answers:
            await asyncio.sleep(3600)
        return (self.answers[0] if len(self.answers) == 1 else self.answers.pop(0))(request)


def ok(request: web.Request) -> web.Response:
    return web.json_response({"token": "t"} if "auth" in request.path else {"fine": 1})


def error(body: object, status: int = 503) -> Answer:
    return lambda request: web.json_response(body, status=status)


@asynccontextmanager
async def gateway(*members: Member, **options: object) -> AsyncIterator[EtcdGateway]:
    runners = []
    for member in members:
        application = web.Application()
        application.router.add_post("/v3/{path:.*}", member.answer)
        runner = web.AppRunner(application, shutdown_timeout=0.01)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        member.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        runners.append(runner)
    urls = [each.url for each in members]
    opened = EtcdGateway(EtcdEndpoints(urls, **{"request_seconds": 30, **options}))
    try:
        yield opened
    finally:
        await opened.aclose()
        for runner in runners:
            await runner.cleanup()


@pytest.mark.parametrize(
    "answers",
    [
        (),
        (error(NO_LEADER),),
        (error({"code": 4, "error": "context deadline exceeded"}, 504),),
        (lambda request: web.Response(status=502, text="<html>bad gateway"),),
        (error({"error": {"grpc_code": 14, "http_code": 503, "message": "no leader"}}),),
        (lambda request: web.Response(text="<html>sign in"),),
    ],
    ids=[
        "hangs",
        "no leader",
        "too late",
        "a proxy without an etcd",
        "a stream without a leader",
        "a proxy's page",
    ],
)
async def test_the_next_endpoint_is_asked_and_stays_the_first(answers: tuple[Answer, ...]) -> None:
    bad, good = Member(*answers), Member(ok)
    async with gateway(bad, good, request_seconds=30 if answers else HANGS_SECONDS) as opened:
        assert await opened.request("kv/range", {}) == b'{"fine": 1}'
        assert await opened.request("kv/txn", {}) == b'{"fine": 1}'
    assert bad.paths == ["/v3/kv/range"]
    assert good.paths == ["/v3/kv/range", "/v3/kv/txn"]


async def test_an_endpoint_that_refuses_connections_is_passed_over() -> None:
    good = Member(ok)
    async with gateway(good):
        opened = EtcdGateway(EtcdEndpoints([f"http://127.0.0.1:{free_port()}", good.url]))
        assert await opened.request("kv/range", {}) == b'{"fine": 1}'
        await opened.aclose()


async def test_each_endpoint_is_asked_once() -> None:
    members = [Member(error(NO_LEADER)) for _ in range(3)]
    async with gateway(*members) as opened:
        with pytest.raises(CoordinatorUnavailable, match=r"(?s)no leader.*no leader.*no leader"):
            await opened.request("kv/range", {})
    assert [len(each.paths) for each in members] == [1, 1, 1]


async def test_requests_that_fail_at_once_pass_over_no_endpoint() -> None:
    good = Member(ok)
    async with gateway(Member(error(NO_LEADER)), good, Member(error(NO_LEADER))) as opened:
        requests = (opened.request(path, {}) for path in ("kv/range", "lease/keepalive"))
        assert await asyncio.gather(*requests) == [b'{"fine": 1}'] * 2
        assert await opened.request("kv/txn", {}) == b'{"fine": 1}'
    assert len(good.paths) == 3


async def test_what_another_endpoint_would_refuse_too_is_not_asked_again() -> None:
    full = error({"code": 8, "error": "etcdserver: mvcc: database space exceeded"}, 429)
    denied = error({"code": 7, "error": "etcdserver: permission denied"}, 403)
    members = Member(denied), Member(denied)
    async with gateway(*members) as opened:
        with pytest.raises(CoordinatorRefused, match="permission denied"):
            await opened.request("kv/txn", {})
    assert members[1].paths == []
    async with gateway(Member(full)) as opened:
        with pytest.raises(CoordinatorUnavailable, match="space exceeded"):
            await opened.request("kv/txn", {})


async def test_what_is_no_answer_of_etcd_is_refused() -> None:
    async with gateway(Member(lambda request: web.json_response([]))) as opened:
        with pytest.raises(CoordinatorUnavailable):
            await opened.request("kv/range", {})
    async with gateway(Member(lambda request: web.json_response({"no": 1}))) as opened:
        coordinator = EtcdCoordinator(opened, "/routelog/x", 2)
        for ask in (coordinator.read, coordinator.renew):
            with pytest.raises(CoordinatorRefused, match="no answer of etcd"):
                await ask()


async def test_a_token_that_ended_is_replaced_once() -> None:
    ended = error({"code": 16, "error": "etcdserver: invalid auth token"}, 401)
    member = Member(ok, ended, ok, ok)
    async with gateway(member, user="u", password="p") as opened:
        assert await opened.request("kv/range", {}) == b'{"fine": 1}'
    login, read = "/v3/auth/authenticate", "/v3/kv/range"
    assert member.paths == [login, read, login, read]
    assert member.tokens == [None, "t", None, "t"]
    async with gateway(Member(ok, ended, ok, ended), user="u", password="p") as opened:
        with pytest.raises(CoordinatorRefused, match="invalid auth token"):
            await opened.request("kv/range", {})
