"""Where a broker is, and how to speak to it: an AMQP URI, taken apart."""

import ssl
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from routelog.benchmarks.traffic.unexpected import BadRequest

PORTS = {"amqp": 5672, "amqps": 5671}
_PARAMETERS = {"cacertfile", "verify"}


@dataclass(frozen=True)
class Endpoint:
    """An address and a login.

    Args:
        verify: whether the certificate of an `amqps` broker must be that of its host.
        ca_file: certificates to trust; None means the system's.
    """

    host: str
    port: int
    user: str
    password: str
    vhost: str
    with_tls: bool = False
    verify: bool = True
    ca_file: str | None = None

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Read a URI, with `cacertfile` and `verify` as RabbitMQ's clients write them.

        Raises:
            BadRequest: it is none.

        Source: https://www.rabbitmq.com/docs/uri-spec, https://www.rabbitmq.com/docs/uri-query-parameters
        """
        try:
            parts = urlsplit(uri)
            port = parts.port
        except ValueError as error:
            raise BadRequest(f"bad URI: {error}") from None
        if parts.scheme not in PORTS or not parts.hostname:
            raise BadRequest("bad URI: it has to begin with amqp://HOST or amqps://HOST")
        if unknown := set(query := parse_qs(parts.query)) - _PARAMETERS:
            raise BadRequest(f"bad URI: unknown parameter {sorted(unknown)[0]!r}")
        verify = query.get("verify", ["verify_peer"])[-1]
        if verify not in ("verify_peer", "verify_none"):
            raise BadRequest("bad URI: verify is verify_peer or verify_none")
        return cls(
            host=parts.hostname,
            port=PORTS[parts.scheme] if port is None else port,
            user=unquote(parts.username or "guest"),
            password=unquote(parts.password or "guest"),
            vhost=unquote(parts.path[1:]) or "/",
            with_tls=parts.scheme == "amqps",
            verify=verify == "verify_peer",
            ca_file=query.get("cacertfile", [None])[-1],
        )

    @property
    def address(self) -> str:
        """Host and port, for people."""
        return f"{self.host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext | None:
        """How to wrap the socket; None without TLS.

        Raises:
            BadRequest: the file of certificates cannot be read.
        """
        if not self.with_tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise BadRequest(f"{self.ca_file}: no certificates: {error.strerror}") from None
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def with_tls_options(uri: str, ca_file: str | None, *, insecure: bool) -> str:
    """The URI with what the options say of TLS.

    Raises:
        BadRequest: it is not one of `amqps`.
    """
    parameters = {"cacertfile": ca_file} if ca_file else {}
    if insecure:
        parameters["verify"] = "verify_none"
    if not parameters:
        return uri
    if not uri.startswith("amqps://"):
        raise BadRequest("the options of TLS need a URI that begins with amqps://")
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(parameters, quote_via=quote)}"
