"""The command line's way to the broker of a data directory: the HTTP API, with the token that lies there."""

from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from log_backend import SystemDisk

FILE = "management.json"
ANSWER_SECONDS_MAX = 120.0  # an import of many definitions takes long
FILE_BYTES_MAX = 65_536


class NotReachable(Exception):
    """There is no broker to ask; the text says why."""


class AnswerRefused(Exception):
    """The broker refused; the text is its reason."""


class _Door(msgspec.Struct):
    url: str
    token: str


class ManagementClient:
    """Asks the broker that runs on a data directory of this machine."""

    def __init__(self, data_dir: Path) -> None:
        """Look for the broker.

        Raises:
            NotReachable: no broker runs there, or this user may not read its token.
        """
        door = _door(data_dir)
        self._token = door.token
        self._address = urlsplit(door.url)

    def get(self, *parts: str, query: str = "") -> Any:
        """The decoded answer; see `ask`."""
        return msgspec.json.decode(self.ask("GET", *parts, query=query))

    def ask(self, method: str, *parts: str, body: object = None, query: str = "") -> bytes:
        """The answer to a request.

        Args:
            parts: of the path behind /api, not encoded.
            body: encoded as JSON, unless it is bytes; None: none.

        Raises:
            NotReachable: the broker does not answer.
            AnswerRefused: it refuses.
        """
        return b"".join(self.pieces(method, *parts, body=body, query=query))

    def pieces(
        self, method: str, *parts: str, body: object = None, query: str = ""
    ) -> Iterator[bytes]:
        """The answer to a request, as it comes in; see `ask`."""
        path = "/api/" + "/".join(quote(part, safe="") for part in parts)
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        connection = HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=ANSWER_SECONDS_MAX
        )
        try:
            connection.request(
                method,
                path + (f"?{query}" if query else ""),
                body=None if body is None else content,
                headers={"Authorization": f"Bearer {self._token}"},
            )
            answer = connection.getresponse()
            if answer.status >= 400:
                raise AnswerRefused(_reason(answer.status, answer.read()))
            while piece := answer.read(FILE_BYTES_MAX):
                yield piece
        except (OSError, HTTPException) as error:
            raise NotReachable(f"the broker at {self._address.geturl()}: {error}") from None
        finally:
            connection.close()


def _door(data_dir: Path) -> _Door:
    disk = SystemDisk()
    try:
        file = disk.open(data_dir / FILE)
    except FileNotFoundError:
        reason = f"{data_dir}: no broker with management runs on this directory; see --data-dir"
        raise NotReachable(reason) from None
    except OSError as error:
        raise NotReachable(f"{data_dir / FILE}: {error.strerror}") from None
    try:
        content = disk.read(file, 0, min(disk.size(file), FILE_BYTES_MAX))
        return msgspec.json.decode(content, type=_Door)
    except (msgspec.MsgspecError, OSError) as error:
        raise NotReachable(f"{data_dir / FILE}: {error}") from None
    finally:
        disk.close(file)


def _reason(status: int, content: bytes) -> str:
    try:
        answer = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        return f"status {status}"
    if answer.get("error") == "Object Not Found":
        return "there is nothing of this name"
    return str(answer.get("reason", f"status {status}"))
