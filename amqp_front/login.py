"""Logging in: is the password right, and may the user come from there?"""

from amqp_front.errors import ACCESS_REFUSED, HardError
from amqp_front.services import Services
from vhosts import User, may_connect_from

REFUSED = "Login was refused using authentication mechanism {}. For details see the broker logfile."


async def log_in(
    services: Services, peer: str | None, mechanism: str, name: str, password: bytes
) -> User:
    """The user who has this name and password.

    Args:
        peer: address the client connects from; None is no network address.

    Raises:
        HardError: 403, with the same text whatever was wrong.
        AuthenticationBusy: too many others are logging in.
    """
    user = services.users.find(name)
    verified = await services.passwords.verify(user, password)
    # The user may have been changed or deleted while the password was verified.
    if not verified or user is None or services.users.find(name) != user:
        raise HardError(ACCESS_REFUSED, REFUSED.format(mechanism))
    if not may_connect_from(name, peer, services.config.loopback_users):
        raise HardError(ACCESS_REFUSED, REFUSED.format(mechanism))
    return user
