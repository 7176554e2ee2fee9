"""SASL: the mechanisms, and the responses of PLAIN and AMQPLAIN."""

from routelog.amqp_front.wire.errors import HardError
from routelog.amqp_front.wire.properties import read_table

MECHANISMS = ("PLAIN", "AMQPLAIN")
EXTERNAL = "EXTERNAL"  # the client is who its certificate says; its response says nothing


class MalformedResponse(Exception):
    """The response is none of its mechanism, or the mechanism is not offered."""


def credentials(mechanism: str, response: bytes) -> tuple[str, bytes]:
    """User name and password of a response.

    Raises:
        MalformedResponse: it has none.

    Source:
        RFC 4616 for PLAIN; AMQPLAIN is a field table with LOGIN and PASSWORD.
    """
    if mechanism == "PLAIN":
        return _plain(response)
    if mechanism == "AMQPLAIN":
        return _amqplain(response)
    raise MalformedResponse(f"mechanism {mechanism!r} is not offered")


def _plain(response: bytes) -> tuple[str, bytes]:
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise MalformedResponse("a PLAIN response has three parts")
    try:
        return parts[1].decode(), parts[2]
    except UnicodeDecodeError:
        raise MalformedResponse("the user name is not UTF-8") from None


def _amqplain(response: bytes) -> tuple[str, bytes]:
    try:
        table = read_table(response, 0, len(response))
    except HardError:
        raise MalformedResponse("the AMQPLAIN response is no field table") from None
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if isinstance(password, str):
        password = password.encode()
    if not isinstance(login, str) or not isinstance(password, bytes):
        raise MalformedResponse("the AMQPLAIN response lacks LOGIN or PASSWORD")
    return login, password
