"""Authentication of a request: basic, the token of the local command line, or a token for logs."""

import binascii
import hmac
from base64 import b64decode
from urllib.parse import parse_qs

from routelog.broker import proved_user
from routelog.management.calls.broker_side import BrokerSide
from routelog.management.calls.call import Content, in_body_time
from routelog.management.calls.caller import Caller
from routelog.management.calls.failures import NOT_AUTHORISED, Refused
from routelog.management.calls.log_tokens import PREFIX, LogTokens
from routelog.vhosts import is_local

HEADER_CHARACTERS_MAX = 4_096  # far above the base64 of any name and password
FIELDS_MAX = 16  # of a form

_REFUSED = (401, "not_authorized")
_TOKEN = "Bearer "
_BASIC = "Basic "


async def authenticated(
    broker: BrokerSide, token: str, log_tokens: LogTokens, header: str, peer: str | None
) -> Caller:
    """The caller that an Authorization header names.

    Args:
        token: of this run of the broker, for local commands.
        log_tokens: checks tokens for logs.
        peer: address of the other end; None: unknown.

    Raises:
        Refused: 401, whatever was wrong.
        AuthenticationBusy: too many logins wait.
        TooManyFailedLogins: too many logins of this user, or from this address, have failed.
    """
    if header.startswith(_TOKEN + PREFIX):
        return _by_log_token(broker, log_tokens, header[len(_TOKEN) :], peer)
    if header.startswith(_TOKEN):
        return _by_token(broker, token, header[len(_TOKEN) :], peer)
    return await by_password(broker, *_basic(header), peer)


async def by_password(broker: BrokerSide, name: str, password: bytes, peer: str | None) -> Caller:
    """The caller that a name and a password prove; raises as `authenticated` does."""
    user, cause = await proved_user(broker.users, broker.passwords, name, password, peer)
    if user is None:
        raise _failed(cause, name)
    if not broker.loopback_rule.allows(name, peer, password):
        raise _not_from_here(name)
    return Caller(name, user.tags, broker.users.permissions, proved=user)


async def by_form(broker: BrokerSide, content: Content, peer: str | None) -> Caller:
    """The caller whom a form's `username` and `password` prove; raises as `authenticated` does."""
    body = bytearray()
    async with in_body_time():
        async for piece in content.iter_any():
            body += piece
            if len(body) > HEADER_CHARACTERS_MAX:
                raise _failed("a longer form than any")
    try:
        said = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise _failed("malformed form") from None
    if not said.keys() >= {"username", "password"}:
        raise _failed("no name or no password in the form")
    return await by_password(broker, said["username"][0], said["password"][0].encode(), peer)


def _by_token(broker: BrokerSide, token: str, shown: str, peer: str | None) -> Caller:
    if not is_local(peer) or not hmac.compare_digest(
        token.encode(), shown.encode(errors="replace")
    ):
        raise _failed("not the token of this run, or from another machine")
    return Caller("", ("administrator",), broker.users.permissions, is_local=True)


def _by_log_token(broker: BrokerSide, tokens: LogTokens, shown: str, peer: str | None) -> Caller:
    found = tokens.verified(shown, broker.users) if len(shown) <= HEADER_CHARACTERS_MAX else None
    if found is None:
        raise Refused(*_REFUSED, "the token is not valid, or not any more")
    user, vhost = found
    if not broker.loopback_rule.allows(user.name, peer):
        raise _not_from_here(user.name)
    return Caller(user.name, (), broker.users.permissions, only_vhost=vhost, proved=user)


def _basic(header: str) -> tuple[str, bytes]:
    if not header.startswith(_BASIC) or len(header) > HEADER_CHARACTERS_MAX:
        raise _failed("no basic authentication, or a longer one than any")
    try:
        name, colon, password = b64decode(header[len(_BASIC) :], validate=True).partition(b":")
        if not colon:
            raise ValueError
        return name.decode(), password
    except (binascii.Error, ValueError):
        raise _failed("malformed basic authentication") from None


def _failed(cause: str, name: str = "") -> Refused:
    # The client gets the same answer whatever was wrong; the log has the cause.
    return Refused(*_REFUSED, "Login failed", cause=cause, name=name)


def _not_from_here(name: str) -> Refused:
    return Refused(*NOT_AUTHORISED, "User can only log in via localhost", name=name)
