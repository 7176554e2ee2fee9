"""Partner of spark_bridge/logs/http_session.py."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from routelog.spark_bridge.logs import http_session
from routelog.spark_bridge.logs.errors import ServiceRefused, ServiceUnreachable
from routelog.spark_bridge.logs.http_endpoint import HttpEndpoint
from routelog.spark_bridge.logs.http_session import HttpSession

BUSY_TIMES = 10  # more than the retries
BUSY = b'{"error": "busy", "reason": "64 stretches of logs are being sent"}'


@contextmanager
def busy_service(times: int, retry_after: str) -> Iterator[int]:
    """A service that answers with 503 so often, and then with a list; its port."""
    left = iter(range(times))

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_busy = next(left, None) is not None
            body = BUSY if is_busy else b"[]"
            self.send_response(503 if is_busy else 200)
            if is_busy:
                self.send_header("Retry-After", retry_after)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def session(port: int, *, timeout: float = 60.0, retries: int = 3, token: str = "t") -> HttpSession:
    endpoint = HttpEndpoint(
        "127.0.0.1", port, False, "anna", "secret", "", "", "", timeout, retries
    )
    return HttpSession(endpoint, {"/": token} if token else {})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_session, "BACK_OFF_SECONDS", (0.0,))


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have so many connections refused, as while a broker starts again."""
    connect = HTTPConnection.connect

    def prepared(times: int) -> None:
        left = iter(range(times))

        def refused(self: HTTPConnection) -> None:
            if next(left, None) is not None:
                raise ConnectionRefusedError("connection refused")
            connect(self)

        monkeypatch.setattr(HTTPConnection, "connect", refused)

    return prepared


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("retry_after", ["0", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_busy_broker_is_waited_for(retry_after: str) -> None:
    with busy_service(BUSY_TIMES, retry_after) as port:
        assert session(port).get("/", ()) == []


def test_a_broker_that_stays_busy_is_given_up_with_its_words() -> None:
    with (
        busy_service(10**9, "3600") as port,
        pytest.raises(ServiceRefused, match=r"being sent, for 0\.1 s \(fetchTimeout\)$"),
    ):
        session(port, timeout=0.1).get("/", ())


def test_without_retries_a_busy_broker_is_not_waited_for() -> None:
    with (
        busy_service(1, "3600") as port,
        pytest.raises(ServiceRefused, match=r"64 stretches of logs are being sent$"),
    ):
        session(port, retries=0).get("/", ())


@pytest.mark.usefixtures("quick")
def test_a_broker_that_starts_again_is_waited_for(refuse: Callable[[int], None]) -> None:
    with busy_service(0, "") as port:
        refuse(BUSY_TIMES)
        assert session(port).get("/", ()) == []


@pytest.mark.usefixtures("quick")
def test_a_broker_that_stays_down_is_given_up(refuse: Callable[[int], None]) -> None:
    refuse(10**9)
    with pytest.raises(ServiceUnreachable, match=r"refused, for 0\.1 s \(fetchTimeout\)"):
        session(1, timeout=0.1).get("/", ())


@pytest.mark.usefixtures("quick")
def test_where_no_broker_was_is_not_waited(refuse: Callable[[int], None]) -> None:
    refuse(4)
    with pytest.raises(ServiceUnreachable, match="cannot be reached: connection refused; is the"):
        session(1, token="").get("/", ())
