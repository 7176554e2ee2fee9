"""Requests to etcd over its JSON gateway: HTTP, so that no other client library is needed.

One request is in flight at one endpoint at a time, with a deadline of its own. An endpoint that refuses, hangs
or has no leader makes the next one be asked; whichever answered last is asked first the next time.

Source:
    https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/
"""

import ssl
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import aiohttp
import msgspec

from routelog.mirror_cluster.coordination.coordinator import (
    CoordinatorRefused,
    CoordinatorUnavailable,
    NobodyListens,
)
from routelog.mirror_cluster.node_tls import handshake_failure

_T = TypeVar("_T")

# gRPC status codes, in the body of an answer that is no success.
_UNAVAILABLE = frozenset((1, 4, 8, 13, 14))  # cancelled, too late, too many, internal, no leader
_UNAUTHENTICATED = 16
_INVALID_TOKEN = "invalid auth token"


class EtcdTls(Protocol):
    """What is used of a `NodeTls` or a `SecretAuthority`."""

    @property
    def client(self) -> ssl.SSLContext:
        """For who connects; the latest one."""

    @property
    def advice(self) -> str:
        """What is wrong when one end does not accept the other; empty: the failure says it."""


@dataclass(frozen=True)
class EtcdEndpoints:
    """Where etcd is and how to be let in.

    Attributes:
        urls: `http://host:port` or `https://host:port`.
        user: empty: no user.
        tls: for https: trusted authorities, and the node's own certificate; None: the system's authorities.
        request_seconds: an endpoint that has not answered for so long is taken for hung.
    """

    urls: Sequence[str]
    user: str = ""
    password: str = ""
    tls: EtcdTls | None = None
    request_seconds: float = 1.0


class _GatewayError(msgspec.Struct):
    code: int = 2
    grpc_code: int = 0
    message: str = ""
    # Of a stream, such as `lease/keepalive`: an object like this one, with a `grpc_code`
    error: Any = ""


class _Login(msgspec.Struct):
    token: str


class EtcdGateway:
    """Sends requests to whichever endpoint answers.

    Args:
        endpoints: at least one.
    """

    def __init__(self, endpoints: EtcdEndpoints) -> None:
        self._endpoints = endpoints
        self._next = 0  # index of the endpoint that is asked first
        self._token = ""
        self._http: aiohttp.ClientSession | None = None

    async def request(self, path: str, body: Mapping[str, object]) -> bytes:
        """Send one request, to each endpoint in turn until one answers.

        Args:
            path: behind `/v3/`.

        Returns:
            The answer, JSON.

        Raises:
            CoordinatorUnavailable: no endpoint answered; whether one carried it out is unknown.
            NobodyListens: all of them have refused the connection.
            CoordinatorRefused: one answered with an error that another would answer, too.
        """
        urls, at = self._endpoints.urls, self._next
        problems, refusals = [], 0
        for _ in range(len(urls)):
            url = urls[at]
            try:
                return await self._ask_logged_in(url, path, body)
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                problems.append(f"{url}: {_described(error, self._endpoints.tls)}")
                refusals += is_refusal(error)
                # Counted from what this request asked: others that fail meanwhile make it pass over none.
                self._next = at = (at + 1) % len(urls)
        kind = NobodyListens if refusals == len(urls) else CoordinatorUnavailable
        raise kind("; ".join(problems))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _ask_logged_in(self, url: str, path: str, body: Mapping[str, object]) -> bytes:
        if self._endpoints.user and not self._token:
            await self._log_in(url)
        try:
            return await self._ask(url, path, body)
        except _LoggedOut:
            await self._log_in(url)  # a token ends after minutes, and with the etcd that gave it
            return await self._ask(url, path, body)

    async def _log_in(self, url: str) -> None:
        self._token = ""
        user = {"name": self._endpoints.user, "password": self._endpoints.password}
        self._token = from_json(await self._ask(url, "auth/authenticate", user), _Login).token

    async def _ask(self, url: str, path: str, body: Mapping[str, object]) -> bytes:
        if self._http is None:
            timeout = aiohttp.ClientTimeout(total=self._endpoints.request_seconds)
            self._http = aiohttp.ClientSession(timeout=timeout)
        headers = {"Authorization": self._token} if self._token else {}
        tls = self._endpoints.tls
        async with self._http.post(
            f"{url}/v3/{path}",
            data=msgspec.json.encode(body),
            headers=headers,
            ssl=True if tls is None else tls.client,
        ) as response:
            answer = await response.read()
            if response.status == 200 and answer.startswith(b"{"):
                return answer
        raise _error(answer, response.status)


class _LoggedOut(CoordinatorRefused):
    """The token of this login has ended."""


def is_refusal(error: Exception) -> bool:
    """Whether nobody listens at the address."""
    return isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, ConnectionRefusedError
    )


def _described(error: Exception, tls: EtcdTls | None) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if not isinstance(cause, ssl.SSLError):
        return str(error) or type(error).__name__
    advice = "" if tls is None else tls.advice
    return handshake_failure(cause) + (advice and f" ({advice})")


def _error(answer: bytes, status: int) -> Exception:
    try:
        told = msgspec.json.decode(answer, type=_GatewayError)
        if isinstance(told.error, dict):
            told = msgspec.convert(told.error, _GatewayError)
    except msgspec.DecodeError:
        return aiohttp.ClientError(f"HTTP status {status}")
    message, code = told.message or str(told.error), told.grpc_code or told.code
    if _INVALID_TOKEN in message or code == _UNAUTHENTICATED:
        return _LoggedOut(message)
    if code in _UNAVAILABLE:
        return aiohttp.ClientError(message)
    return CoordinatorRefused(f"etcd: {message}")


def from_json(answer: bytes, kind: type[_T]) -> _T:
    """An answer as what it should be.

    Raises:
        CoordinatorRefused: it is something else, as of a proxy before etcd.
    """
    try:
        # 64-bit numbers come as strings.
        return msgspec.json.decode(answer, type=kind, strict=False)
    except msgspec.DecodeError as error:
        raise CoordinatorRefused(f"no answer of etcd: {error}") from None


def encoded(octets: bytes) -> str:
    """Keys and values as the gateway has them."""
    return b64encode(octets).decode()


def decoded(text: str) -> bytes:
    """The octets that the gateway wrote so."""
    return b64decode(text)
