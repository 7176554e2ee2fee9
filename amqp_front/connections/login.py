"""Logging in: who is it, is that proved, and may the user come from there?"""

from collections.abc import Coroutine
from typing import Any, Protocol

from routelog.amqp_front.node.services import Services
from routelog.amqp_front.wire.errors import ACCESS_REFUSED, LoginRefused
from routelog.amqp_front.wire.sasl import EXTERNAL, MECHANISMS, credentials
from routelog.broker import Certificate, login_name
from routelog.vhosts import TooManyFailedLogins, User

PROTOCOL = "AMQP 0-9-1"
REFUSED = "Login was refused using authentication mechanism {}. For details see the broker logfile."


class Client(Protocol):
    """What is known of a client before it logs in; see `ClientSocket`."""

    name: str
    peer: str | None
    certificate: Certificate | None


def offered(services: Services, client: Client) -> tuple[str, ...]:
    """The SASL mechanisms that a client may choose from.

    EXTERNAL is one when a user is called as the client's certificate says: many clients that have a
    certificate for the transport only, and a password to log in, would take it unasked.
    """
    if client.certificate is None:
        return MECHANISMS
    name = login_name(client.certificate, services.config.tls_login_from)
    if name is not None and services.users.find(name) is not None:
        return (*MECHANISMS, EXTERNAL)
    services.vhosts.events.note(
        "certificate.unknown", name=name, address=client.name, cause=f"{EXTERNAL} is not offered"
    )
    return MECHANISMS


def log_in(
    services: Services, client: Client, mechanism: str, response: bytes
) -> Coroutine[Any, Any, User]:
    """Begin to log in.

    Returns:
        The user, or 403 with the same text whatever was wrong (LoginRefused), or `AuthenticationBusy`:
        too many others are logging in; or `TooManyFailedLogins`.

    Raises:
        MalformedResponse: the response is none of its mechanism, or the mechanism was not offered.
    """
    if client.certificate is not None and mechanism == EXTERNAL:
        name = login_name(client.certificate, services.config.tls_login_from)
        return _by_certificate(services, client, name)
    name, password = credentials(mechanism, response)
    return _by_password(services, client, mechanism, name, password)


async def _by_certificate(services: Services, client: Client, name: str | None) -> User:
    user = services.users.find(name) if name is not None else None
    cause = "no user is called as the certificate says" if user is None else ""
    return _admitted(services, client, EXTERNAL, user, name or "", cause)


async def _by_password(
    services: Services, client: Client, mechanism: str, name: str, password: bytes
) -> User:
    user = services.users.find(name)
    try:
        verified = await services.passwords.verify(user, password, name=name, peer=client.peer)
    except TooManyFailedLogins:
        refused(services, client, mechanism, name, "too many failed logins")
        raise
    cause = ""
    # The user may have been changed or deleted while the password was verified.
    if user is None or not verified or services.users.find(name) != user:
        user, cause = None, "wrong password" if user is not None else "no such user"
    return _admitted(services, client, mechanism, user, name, cause, password)


def _admitted(
    services: Services,
    client: Client,
    mechanism: str,
    user: User | None,
    name: str,
    cause: str,
    password: bytes = b"",
) -> User:
    rule = services.config.loopback_rule
    if user is not None and not rule.allows(user.name, client.peer, password):
        cause = "the user, or the built-in password, is for this machine only (loopback_users)"
    if user is None or cause:
        refused(services, client, mechanism, name, cause)
        raise LoginRefused(ACCESS_REFUSED, REFUSED.format(mechanism))
    said = {"name": user.name, "peer_host": client.peer or "", "protocol": PROTOCOL}
    services.vhosts.events.tell("user.authentication.success", **said)
    return user


def refused(services: Services, client: Client, mechanism: str, name: str, cause: str) -> None:
    """Tell that a login was refused; the cause is for the log alone, as it says which users there are."""
    events = services.vhosts.events
    said = {"name": name, "peer_host": client.peer or "", "protocol": PROTOCOL}
    events.publish("user.authentication.failure", **said)
    events.note(
        "user.authentication.failure",
        **said,
        address=client.name,
        mechanism=mechanism,
        cause=cause,
    )
