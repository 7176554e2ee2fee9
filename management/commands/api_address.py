"""Where a broker's HTTP API is, and what lets a command in: the token of this machine, or a user's password."""

import ssl
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

FILE = "management.json"
ANSWER_SECONDS_MAX = 120.0  # an import of many definitions takes long


class NotReachable(Exception):
    """There is no broker to ask; the text says why."""


@dataclass(frozen=True, slots=True)
class ApiAddress:
    """The way in.

    Attributes:
        url: without a user, and without a path.
        authorization: the header.
        context: what is trusted, of an https URL.
        data_dir: of the broker that has left this address there; it may have been killed. None: of none.
    """

    url: str
    authorization: str = field(repr=False)
    context: ssl.SSLContext | None = None
    data_dir: Path | None = None

    def connection(self) -> HTTPConnection:
        """A connection to be made."""
        where = urlsplit(self.url)
        host = where.hostname or ""
        if self.context is None:
            return HTTPConnection(host, where.port, timeout=ANSWER_SECONDS_MAX)
        return HTTPSConnection(host, where.port, timeout=ANSWER_SECONDS_MAX, context=self.context)


class _File(msgspec.Struct):
    url: str
    token: str


def local_api(data_dir: Path) -> ApiAddress:
    """The door of the broker that runs on a data directory of this machine.

    Raises:
        NotReachable: no broker runs there, or this user may not read its token.
    """
    try:
        found = msgspec.json.decode((data_dir / FILE).read_bytes(), type=_File)
    except FileNotFoundError:
        reason = "no broker with management runs on this directory, or it follows another node"
        raise NotReachable(f"{data_dir}: {reason}; see --data-dir and --url") from None
    except OSError as error:
        raise NotReachable(f"{data_dir / FILE}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise NotReachable(f"{data_dir / FILE}: {error}") from None
    return ApiAddress(found.url, f"Bearer {found.token}", data_dir=data_dir)


def basic_authorization(user: str, password: str) -> str:
    """The header of a user's request."""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def remote_api(url: str, ca_file: str, password_of: Callable[[str], str]) -> ApiAddress:
    """The door of a broker elsewhere.

    Args:
        url: http or https, with a user, perhaps with his password.
        ca_file: PEM of whom to trust; empty: whom the system trusts.
        password_of: asked for the password that the URL leaves out.

    Raises:
        NotReachable: the URL or the file cannot be used.
    """
    try:
        where = urlsplit(url)
        port = where.port
    except ValueError as error:
        raise NotReachable(f"--url: {error}") from None
    if where.scheme not in ("http", "https") or not where.hostname or not where.username:
        raise NotReachable("--url: expected https://user@host:15671")
    context = None
    if where.scheme == "https":
        try:
            context = ssl.create_default_context(cafile=ca_file or None)
        except OSError as error:
            raise NotReachable(f"--ca-file {ca_file}: {error.strerror or error}") from None
    user = unquote(where.username)
    password = password_of(user) if where.password is None else unquote(where.password)
    host = f"[{where.hostname}]" if ":" in where.hostname else where.hostname
    shown = f"{where.scheme}://{host}" + (f":{port}" if port is not None else "")
    return ApiAddress(shown, basic_authorization(user, password), context)
