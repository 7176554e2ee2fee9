"""The command line's way to a broker: its HTTP API."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.client import BadStatusLine, HTTPException, RemoteDisconnected
from typing import Any
from urllib.parse import quote

import msgspec
import typer

from routelog.management.commands.api_address import ApiAddress, NotReachable, basic_authorization

PIECE_BYTES = 65_536  # of an answer at a time
LOGIN_FAILED = "not_authorized"
NOT_ALLOWED = "not_authorised"  # he has logged in, and may not do what he asks for

_PLAINLY = {  # reasons that RabbitMQ has words for programs for
    "not_json": "this is no JSON object",
}


class AnswerRefused(Exception):
    """The broker refused; the text is its reason.

    Attributes:
        error: the HTTP API's name for it; empty: none.
    """

    def __init__(self, reason: str, error: str = "") -> None:
        super().__init__(reason)
        self.error = error


class ManagementClient:
    """Asks a broker over its HTTP API."""

    def __init__(self, door: ApiAddress) -> None:
        self._door = door

    def as_user(self, name: str, password: str) -> "ManagementClient":
        """A client of the same broker that asks as a user."""
        authorization = basic_authorization(name, password)
        return ManagementClient(replace(self._door, authorization=authorization, data_dir=None))

    def get(self, *parts: str, query: str = "") -> Any:
        """The decoded answer; see `ask`."""
        content = self.ask("GET", *parts, query=query)
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            reason = f"what answers at {self._door.url} is no broker"
            raise NotReachable(reason) from None

    def ask(self, method: str, *parts: str, body: object = None, query: str = "") -> bytes:
        """The answer to a request.

        Args:
            parts: of the path behind /api, not encoded.
            body: encoded as JSON, unless it is bytes; None: none.

        Raises:
            typer.BadParameter: a part is empty: it was meant to name something, and without it the path is
                another one, such as that of all users.
            NotReachable: the broker does not answer.
            AnswerRefused: it refuses.
        """
        return b"".join(self.pieces(method, *parts, body=body, query=query))

    def pieces(
        self, method: str, *parts: str, body: object = None, query: str = ""
    ) -> Iterator[bytes]:
        """The answer to a request, as it comes in; see `ask`."""
        if not all(parts):
            raise typer.BadParameter("a name is empty")
        path = "/api/" + "/".join(quote(part, safe="") for part in parts)
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        connection = self._door.connection()
        try:
            connection.request(
                method,
                path + (f"?{query}" if query else ""),
                body=None if body is None else content,
                headers={"Authorization": self._door.authorization},
            )
            answer = connection.getresponse()
            if answer.status >= 400:
                raise self._refusal(parts, answer.status, answer.read())
            while piece := answer.read(PIECE_BYTES):
                yield piece
        except ConnectionRefusedError as error:
            raise self._nobody_there(error) from None
        except (OSError, HTTPException) as error:
            url = self._door.url
            if isinstance(error, BadStatusLine) and not isinstance(error, RemoteDisconnected):
                reason = f"what answers at {url} does not speak HTTP: is that the HTTP API's port?"
                raise NotReachable(reason) from None
            raise NotReachable(f"the broker at {url}: {_in_words(error)}") from None
        finally:
            connection.close()

    def _nobody_there(self, error: OSError) -> NotReachable:
        url, data_dir = self._door.url, self._door.data_dir
        if data_dir is None:
            return NotReachable(f"the broker at {url}: {_in_words(error)}")
        reason = f"its broker, which listened at {url}, was killed: {_in_words(error)}"
        return NotReachable(f"{data_dir}: {reason}")

    def _refusal(self, parts: Sequence[str], status: int, content: bytes) -> Exception:
        try:
            answer = msgspec.json.decode(content, type=dict[str, Any])
        except msgspec.MsgspecError:
            reason = f"status {status}, which is no answer of a broker"
            return AnswerRefused(f"{self._door.url}: {reason}")
        url, data_dir = self._door.url, self._door.data_dir
        if data_dir is not None and answer.get("error") == LOGIN_FAILED:
            reason = "another process listens there, if the broker of this directory was killed"
            return NotReachable(f"{url} does not take the token in {data_dir}: {reason}")
        return AnswerRefused(_reason(parts, status, answer), str(answer.get("error", "")))


def _in_words(error: Exception) -> str:
    # Without the system's number.
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _reason(parts: Sequence[str], status: int, answer: dict[str, Any]) -> str:
    reason = str(answer.get("reason", f"status {status}"))
    if reason == "Not Found":
        return f"there is no /api/{'/'.join(parts)}"
    if reason == "vhost_or_user_not_found":
        return f"no vhost '{parts[1]}'"  # commands have asked for the user before
    if reason.startswith("not_json: "):  # and where
        return f"this is no JSON: {reason.removeprefix('not_json: ')}"
    return _PLAINLY.get(reason, reason)
