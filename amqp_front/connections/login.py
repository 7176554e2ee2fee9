"""Logging in by SASL, and what a client is told that may not."""

from collections.abc import Coroutine
from typing import Any

from routelog.amqp_front.wire.errors import ACCESS_REFUSED, LoginRefused
from routelog.amqp_front.wire.sasl import EXTERNAL, MECHANISMS, credentials
from routelog.broker import LoginClient, Logins
from routelog.vhosts import AuthenticationRefused, User

REFUSED = "Login was refused using authentication mechanism {}. For details see the broker logfile."


def offered(logins: Logins, client: LoginClient) -> tuple[str, ...]:
    """The SASL mechanisms that a client may choose from.

    EXTERNAL is one when a user is called as the client's certificate says: many clients that have a
    certificate for the transport only, and a password to log in, would take it unasked.
    """
    return (*MECHANISMS, EXTERNAL) if logins.is_certified(client, EXTERNAL) else MECHANISMS


def log_in(
    logins: Logins, client: LoginClient, mechanism: str, response: bytes
) -> User | Coroutine[Any, Any, User]:
    """Begin to log in.

    Returns:
        The user, when the password is remembered; else a coroutine for the user, or for 403 with the same
        text whatever was wrong (LoginRefused), or for `AuthenticationBusy`: too many others are logging in;
        or for `TooManyFailedLogins`.

    Raises:
        MalformedResponse: the response is none of its mechanism, or the mechanism was not offered.
    """
    if client.certificate is not None and mechanism == EXTERNAL:
        return _in_words(logins.by_certificate(client, mechanism), mechanism)
    name, password = credentials(mechanism, response)
    user = logins.remembered(client, name, password)
    if user is not None:
        return user
    return _in_words(logins.by_password(client, mechanism, name, password), mechanism)


async def _in_words(login: Coroutine[Any, Any, User], mechanism: str) -> User:
    try:
        return await login
    except AuthenticationRefused:
        raise LoginRefused(ACCESS_REFUSED, REFUSED.format(mechanism)) from None
