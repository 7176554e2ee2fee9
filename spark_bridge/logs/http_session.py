"""Requests to a broker's HTTP log service, over one connection that is kept open."""

import json
import math
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from threading import Event
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from routelog.log_backend import Clock, SystemClock
from routelog.spark_bridge.logs.errors import (
    BadOption,
    DamagedSegment,
    HoldLapsed,
    ServiceRefused,
    ServiceUnreachable,
)
from routelog.spark_bridge.logs.http_endpoint import HttpEndpoint

BACK_OFF_SECONDS = (0.1, 0.5, 2.0)  # before the first, second and all later retries of a request

NO_QUERY: Mapping[str, object] = MappingProxyType({})
_NETWORK_FAULTS = (OSError, HTTPException)


class _Unavailable(ConnectionError):
    """The broker answers 503: after the seconds that it tells, it may take the request."""

    def __init__(self, reason: str, seconds: float | None) -> None:
        super().__init__(reason)
        self.seconds = seconds


class _Token(NamedTuple):
    text: str
    renew_at: float  # seconds of the monotonic clock


class HttpSession:
    """A connection, and the tokens that authorize its requests.

    Args:
        tokens: by vhost; a missing one is requested with the endpoint's password.
    """

    def __init__(self, endpoint: HttpEndpoint, tokens: Mapping[str, str]) -> None:
        self._endpoint = endpoint
        self._clock = SystemClock()
        self._tokens = {vhost: _Token(token, math.inf) for vhost, token in tokens.items()}
        self._connection: HTTPConnection | None = None

    def attempts(self) -> "Attempts":
        """The tries of a request that begins."""
        return Attempts(self._endpoint, self._clock, was_reached=bool(self._tokens))

    def get(self, vhost: str, path: tuple[str, ...], **query: object) -> Any:
        """Get the JSON at a path of a vhost; None if it does not exist.

        Raises:
            BadOption: the broker refuses the user.
            ServiceUnreachable: all tries have failed.
            ServiceRefused: the broker has answered with another error, or was busy for too long.
        """
        attempts = self.attempts()
        while True:
            with attempts.excused(), self.answer(vhost, path, query) as answer:
                return None if answer is None else json.loads(answer.read())

    def put(self, vhost: str, path: tuple[str, ...], body: object) -> None:
        """Put JSON to a path of a vhost, with the endpoint's password; nothing if the path does not exist.

        Raises:
            BadOption, ServiceUnreachable, ServiceRefused: as with `get`.
        """
        attempts = self.attempts()
        while True:
            with attempts.excused(), self.answer(vhost, path, {}, body):
                return

    @contextmanager
    def answer(
        self,
        vhost: str,
        path: tuple[str, ...],
        query: Mapping[str, object],
        body: object = None,
    ) -> Iterator[HTTPResponse | None]:
        """Send a request; the response is to be read in the `with` block. None if the path does not exist.

        Args:
            body: of a PUT, as JSON; None: this is a GET.

        Raises:
            OSError, HTTPException: a network error: see `Attempts.excused`.
        """
        if body is None:
            answer = self._by_token((vhost, *path), query)
        else:  # tokens are for reading only
            answer = self._send("PUT", (vhost, *path), self._basic(), query, body)
        try:
            if answer.status in (200, 204):
                yield answer
                return
            failure = self._failure(answer)
        finally:
            self._keep_if_read(answer)
        if failure is not None:
            raise failure
        yield None

    def vhosts(self) -> list[str]:
        """Names of the vhosts that the user may access."""
        attempts = self.attempts()
        while True:
            with attempts.excused():
                names = self._spoken("GET", (), self._basic())
                return list(names)

    def token(self, vhost: str) -> str:
        """A token for reading a vhost, which is valid for at least half of its lifetime."""
        known = self._tokens.get(vhost)
        if known is None or self._clock.monotonic() > known.renew_at:
            answer = self._spoken("POST", (vhost, "token"), self._basic())
            half = float(answer["seconds"]) / 2
            known = _Token(answer["token"], self._clock.monotonic() + half)
            self._tokens[vhost] = known
        return known.text

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _by_token(self, path: tuple[str, ...], query: Mapping[str, object]) -> HTTPResponse:
        vhost = path[0]
        answer = self._send("GET", path, f"Bearer {self.token(vhost)}", query)
        if answer.status != 401 or not self._endpoint.password:
            return answer
        # Another node may have taken the broker's place, with a key of its own.
        answer.read()
        self._keep_if_read(answer)
        del self._tokens[vhost]
        return self._send("GET", path, f"Bearer {self.token(vhost)}", query)

    def _basic(self) -> str:
        if not self._endpoint.password:
            raise ServiceRefused(f"{self._endpoint}: there is no token for this vhost")
        words = f"{self._endpoint.user}:{self._endpoint.password}"
        return f"Basic {b64encode(words.encode()).decode()}"

    def _spoken(self, method: str, path: tuple[str, ...], proof: str) -> Any:
        answer = self._send(method, path, proof)
        try:
            if answer.status != 200:
                named = f"no vhost '{path[0]}' at" if path else "no logs at"
                absent = BadOption("vhost", f"{named} {self._endpoint}")
                raise self._failure(answer) or absent
            return json.loads(answer.read())
        finally:
            self._keep_if_read(answer)

    def _send(
        self,
        method: str,
        path: tuple[str, ...],
        proof: str,
        query: Mapping[str, object] = NO_QUERY,
        body: object = None,
    ) -> HTTPResponse:
        target = "/".join(("/api/logs", *(quote(part, safe="") for part in path)))
        if query:
            target += "?" + urlencode(query)
        if self._connection is None:
            self._connection = self._endpoint.connection()
        try:
            content = None if body is None else json.dumps(body)
            self._connection.request(method, target, content, {"Authorization": proof})
            return self._connection.getresponse()
        except _NETWORK_FAULTS:
            self.close()
            raise

    def _keep_if_read(self, answer: HTTPResponse) -> None:
        if not answer.isclosed():
            self.close()

    def _failure(self, answer: HTTPResponse) -> Exception | None:
        """The error that a response stands for; None: the path does not exist."""
        try:
            told = json.loads(answer.read())
            error, reason = str(told["error"]), str(told["reason"])
        except (ValueError, KeyError, TypeError):
            error, reason = "", f"status {answer.status}, which is no answer of a broker"
        if answer.status == 404 and error:
            return None
        if answer.status == 401:
            user = self._endpoint.user
            return BadOption("url", f"{self._endpoint} refuses user '{user}': {reason}")
        if error == "damaged":
            return DamagedSegment(str(self._endpoint), 0, reason)
        if error == "lapsed":
            return HoldLapsed(f"{self._endpoint}: {reason}")
        if answer.status == 503:
            wished = answer.headers.get("Retry-After", "")
            return _Unavailable(reason, float(wished) if wished.isdecimal() else None)
        return ServiceRefused(f"{self._endpoint}: {reason}")


class Attempts:
    """Counts the failed tries of a request, and limits the time in which the broker takes none.

    Args:
        was_reached: this is the broker's address: where it refuses connections, it starts again.
    """

    def __init__(self, endpoint: HttpEndpoint, clock: Clock, *, was_reached: bool) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._was_reached = was_reached
        self.succeeded()

    def succeeded(self) -> None:
        """Note progress: later failures are counted from 0."""
        self._failed = self._waited = 0
        self._give_up_at = math.inf

    @contextmanager
    def excused(self) -> Iterator[None]:
        """Suppress a network error after a pause, so that the caller tries again.

        Raises:
            ServiceUnreachable: this was the last retry, or the broker refused connections for `timeout`.
            ServiceRefused: the broker answered for `timeout` that it is busy, or has no leader.
        """
        try:
            yield
        except _NETWORK_FAULTS as error:
            is_busy = isinstance(error, _Unavailable)
            is_down = isinstance(error, ConnectionRefusedError) and self._was_reached
            if (is_busy or is_down) and self._endpoint.retries:
                pause = self._wait(error)
            elif self._failed < self._endpoint.retries:
                pause = _back_off(self._failed)
                self._failed += 1
            else:
                raise self._final(error) from None
            Event().wait(pause)

    def _wait(self, error: Exception) -> float:
        now = self._clock.monotonic()
        if not self._waited:
            self._give_up_at = now + self._endpoint.timeout
        if now >= self._give_up_at:
            raise self._final(error, f", for {self._endpoint.timeout:g} s (fetchTimeout)") from None
        wished = error.seconds if isinstance(error, _Unavailable) else None
        pause = _back_off(self._waited) if wished is None else wished
        self._waited += 1
        return min(pause, self._give_up_at - now)

    def _final(self, error: Exception, how_long: str = "") -> Exception:
        why = f"{str(error) or type(error).__name__}{how_long}"
        if isinstance(error, _Unavailable):
            return ServiceRefused(f"{self._endpoint}: {why}")
        return ServiceUnreachable(str(self._endpoint), why)


def _back_off(failed: int) -> float:
    return BACK_OFF_SECONDS[min(failed, len(BACK_OFF_SECONDS) - 1)]
