"""The address of a broker's HTTP log service, with credentials and TLS files."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from http.client import HTTPConnection, HTTPSConnection
from typing import Any
from urllib.parse import unquote, urlsplit

from routelog.spark_bridge.logs.errors import BadOption

PORT = 15672
TLS_OPTIONS = ("tlsAuthorities", "tlsCertificate", "tlsKey")


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """Where the service is.

    Attributes:
        is_tls: use https.
        password: stays on the driver: a pickled copy, for executors, has none.
        authorities: PEM file of the authorities that sign the broker's certificate; empty: the system's.
        certificate, key: PEM files of the client's certificate; empty: none.
        timeout: seconds without a byte after which a request has failed; so long a broker may be busy, too.
        retries: of a request after a network error; 0: it does not wait for a busy broker, either.
    """

    host: str
    port: int
    is_tls: bool
    user: str
    password: str
    authorities: str
    certificate: str
    key: str
    timeout: float
    retries: int

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        bare = replace(self, password="")
        return HttpEndpoint, tuple(getattr(bare, field.name) for field in fields(self))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.is_tls else ''}://{host}:{self.port}"

    def connection(self) -> HTTPConnection:
        """A connection that opens with its first request."""
        if not self.is_tls:
            return HTTPConnection(self.host, self.port, timeout=self.timeout)
        return HTTPSConnection(
            self.host, self.port, timeout=self.timeout, context=self._tls_context()
        )

    def _tls_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.authorities or None)
        except OSError as error:
            raise BadOption("tlsAuthorities", f"{self.authorities}: {error}") from None
        if self.certificate:
            try:
                context.load_cert_chain(self.certificate, self.key or None)
            except OSError as error:
                raise BadOption("tlsCertificate", f"{self.certificate}: {error}") from None
        return context


def parse_endpoint(url: str, tls: dict[str, str], timeout: float, retries: int) -> HttpEndpoint:
    """Return the endpoint that options describe.

    Args:
        tls: values of `TLS_OPTIONS` that are given.

    Raises:
        BadOption: names the option that is invalid.
    """
    form = "expected http://user:password@host:15672 or https://..."
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
    except ValueError as error:
        raise BadOption("url", f"{form}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadOption("url", f"{form}, not '{_without_password(url)}'")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise BadOption("url", f"{form}, with nothing behind the port")
    if parts.username is None or parts.password is None:
        raise BadOption("url", f"{form}: there is no user and password in it")
    is_tls = parts.scheme == "https"
    for option in tls:
        if not is_tls:
            raise BadOption(option, "the url is not https")
    if "tlsKey" in tls and "tlsCertificate" not in tls:
        raise BadOption("tlsKey", "there is no tlsCertificate")
    return HttpEndpoint(
        parts.hostname,
        port,
        is_tls,
        unquote(parts.username),
        unquote(parts.password),
        tls.get("tlsAuthorities", ""),
        tls.get("tlsCertificate", ""),
        tls.get("tlsKey", ""),
        timeout,
        retries,
    )


def _without_password(url: str) -> str:
    return url.rpartition("@")[2]
