"""Logging in: who is it, is that proved, and may the user come from there?"""

import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from amqp_front.client_certificate import Certificate, login_name
from amqp_front.errors import ACCESS_REFUSED, HardError
from amqp_front.sasl import EXTERNAL, MECHANISMS, credentials
from amqp_front.services import Services
from vhosts import TooManyFailedLogins, User, may_connect_from

log = logging.getLogger(__name__)

REFUSED = "Login was refused using authentication mechanism {}. For details see the broker logfile."


class Client(Protocol):
    """What is known of a client before it logs in; see `ClientSocket`."""

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
    log.info("%s is not offered: no user is called %r as in the certificate", EXTERNAL, name)
    return MECHANISMS


def log_in(
    services: Services, client: Client, mechanism: str, response: bytes
) -> Coroutine[Any, Any, User]:
    """Begin to log in.

    Returns:
        The user, or 403 with the same text whatever was wrong (HardError), or `AuthenticationBusy`:
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
    if user is None:
        log.warning("no user is called as the client's certificate says: %r", name)
    return _admitted(services, client, EXTERNAL, user, name or "")


async def _by_password(
    services: Services, client: Client, mechanism: str, name: str, password: bytes
) -> User:
    user = services.users.find(name)
    try:
        verified = await services.passwords.verify(user, password, name=name, peer=client.peer)
    except TooManyFailedLogins:
        _tell_of_failure(services, client, name)
        raise
    # The user may have been changed or deleted while the password was verified.
    if not verified or services.users.find(name) != user:
        user = None
    return _admitted(services, client, mechanism, user, name)


def _admitted(
    services: Services, client: Client, mechanism: str, user: User | None, name: str
) -> User:
    if user is None or not may_connect_from(user.name, client.peer, services.config.loopback_users):
        _tell_of_failure(services, client, name)
        raise HardError(ACCESS_REFUSED, REFUSED.format(mechanism))
    tell = services.vhosts.events.tell
    peer = client.peer or ""
    tell("user.authentication.success", name=user.name, peer_host=peer, protocol="AMQP 0-9-1")
    return user


def _tell_of_failure(services: Services, client: Client, name: str) -> None:
    services.vhosts.events.tell(
        "user.authentication.failure",
        name=name,
        peer_host=client.peer or "",
        protocol="AMQP 0-9-1",
    )
