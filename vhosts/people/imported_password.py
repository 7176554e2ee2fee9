"""Password hashes that RabbitMQ made, as its definitions carry them.

    algorithm                        hash, base64
    rabbit_password_hashing_sha256   salt (4 bytes), SHA-256 of salt and password
    rabbit_password_hashing_sha512   salt (4 bytes), SHA-512 of salt and password

They are kept as `algorithm:hash`. They are weak: a new password is hashed with Argon2id.

Source:
    RabbitMQ's documentation of passwords ("Computing a Password Hash").
"""

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode

from routelog.vhosts.errors import InvalidUser

DEFAULT_ALGORITHM = "rabbit_password_hashing_sha256"
SALT_BYTES = 4

_DIGESTS = {DEFAULT_ALGORITHM: "sha256", "rabbit_password_hashing_sha512": "sha512"}


def imported_hash(algorithm: str, encoded: str) -> str:
    """A hash of RabbitMQ in the form in which it is stored.

    Args:
        algorithm: the name of RabbitMQ's module.
        encoded: base64.

    Raises:
        InvalidUser: the algorithm is not one of the two, or the hash is not valid for it.
    """
    digest = _DIGESTS.get(algorithm)
    if digest is None:
        raise InvalidUser(f"the hashing algorithm is none of {', '.join(_DIGESTS)}")
    try:
        content = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidUser("the password hash is not base64") from None
    size = SALT_BYTES + hashlib.new(digest).digest_size
    if len(content) != size:
        raise InvalidUser(f"the password hash has {len(content)} bytes, not {size}")
    return f"{algorithm}:{encoded}"


def rabbitmq_hash(password: bytes, salt: bytes) -> str:
    """A hash as RabbitMQ's definitions carry it, by the default algorithm, with the first bytes of a salt."""
    salt = salt[:SALT_BYTES]
    digest = hashlib.new(_DIGESTS[DEFAULT_ALGORITHM], salt + password).digest()
    return b64encode(salt + digest).decode()


def split_imported_hash(password_hash: str) -> tuple[str, str] | None:
    """Algorithm and base64 of a hash from `imported_hash`; None for any other hash."""
    algorithm, _, encoded = password_hash.partition(":")
    return (algorithm, encoded) if algorithm in _DIGESTS else None


def verify_imported(algorithm: str, encoded: str, password: bytes) -> bool:
    """Tell whether the hash is of this password."""
    content = b64decode(encoded)
    salt, stored = content[:SALT_BYTES], content[SALT_BYTES:]
    return hmac.compare_digest(hashlib.new(_DIGESTS[algorithm], salt + password).digest(), stored)
