"""Bearer tokens for reading the logs of one vhost until a time, with the permissions of their user.

A token is `log.<payload>.<signature>`, both in URL-safe base64 without padding. The payload is JSON,
[user, vhost, end in microseconds since 1970]; the signature is HMAC-SHA256 of it and of the hash of the user's
password, so a changed password ends the user's tokens.
"""

import binascii
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from routelog.log_backend import Clock
from routelog.vhosts import User, UserDirectory

PREFIX = "log."
SECONDS_DEFAULT = 12 * 3_600
SECONDS_MAX = 7 * 86_400  # the driver of a longer query renews its token with the password


class LogTokens:
    """Issues tokens and reads them.

    Args:
        key: the secret of this broker that signs tokens.
    """

    def __init__(self, key: bytes, clock: Clock) -> None:
        self._key = key
        self._clock = clock

    def issue(self, user: User, vhost: str, seconds: int) -> str:
        """Make a token for an authenticated user."""
        end = self._clock.now() + seconds * 1_000_000
        payload = msgspec.json.encode([user.name, vhost, end])
        return f"{PREFIX}{_text(payload)}.{_text(self._signature(payload, user))}"

    def verified(self, token: str, users: UserDirectory) -> tuple[User, str] | None:
        """The user and vhost of a token; None: it is malformed, expired, or not valid any more."""
        payload_text, _, signature = token.removeprefix(PREFIX).partition(".")
        try:
            payload, shown = _bytes(payload_text), _bytes(signature)
            name, vhost, end = msgspec.json.decode(payload, type=tuple[str, str, int])
        except (ValueError, binascii.Error, msgspec.MsgspecError):
            return None
        user = users.find(name)
        if user is None or not hmac.compare_digest(self._signature(payload, user), shown):
            return None
        return (user, vhost) if self._clock.now() < end else None

    def _signature(self, payload: bytes, user: User) -> bytes:
        return hmac.digest(self._key, payload + user.password_hash.encode(), "sha256")


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
