"""Password hashes that RabbitMQ made, as its definitions carry them.

    algorithm                        hash, base64
    rabbit_password_hashing_sha256   salt (4 bytes), SHA-256 of salt and password
    rabbit_password_hashing_sha512   salt (4 bytes), SHA-512 of salt and password

They are kept as `algorithm:hash`. They are weak: a new password is hashed with Argon2id. RabbitMQ takes any
algorithm and any bytes, so they are kept here, too; no password is right for them.

Source:
    RabbitMQ's documentation of passwords ("Computing a Password Hash").
"""

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode

from routelog.vhosts.errors import InvalidUser

DEFAULT_ALGORITHM = "rabbit_password_hashing_sha256"
SALT_BYTES = 4
ENCODED_CHARACTERS_MAX = 1_024  # base64 of SHA-512 with a salt has 92

_ALGORITHM = re.compile(r"[A-Za-z0-9_]{1,64}")

_DIGESTS = {DEFAULT_ALGORITHM: "sha256", "rabbit_password_hashing_sha512": "sha512"}


def imported_hash(algorithm: str, encoded: str) -> str:
    """A hash of RabbitMQ in the form in which it is stored.

    Args:
        algorithm: the name of RabbitMQ's module; any other is kept.
        encoded: base64 of any bytes.

    Raises:
        InvalidUser: it cannot be stored.
    """
    if _ALGORITHM.fullmatch(algorithm) is None:
        raise InvalidUser("the hashing algorithm is no name of a module")
    if len(encoded) > ENCODED_CHARACTERS_MAX:
        raise InvalidUser(f"the password hash is longer than {ENCODED_CHARACTERS_MAX} characters")
    try:
        b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidUser("the password hash is not base64") from None
    return f"{algorithm}:{encoded}"


def hash_fault(password_hash: str) -> str:
    """Why no password is right for a hash that was imported; empty: it is as it should be."""
    imported = split_imported_hash(password_hash)
    if imported is None:
        return ""
    algorithm, encoded = imported
    digest = _DIGESTS.get(algorithm)
    if digest is None:
        return f"the hashing algorithm '{algorithm}' is none of {', '.join(_DIGESTS)}"
    size, wanted = len(b64decode(encoded)), SALT_BYTES + hashlib.new(digest).digest_size
    return "" if size == wanted else f"the password hash has {size} bytes, not {wanted}"


def rabbitmq_hash(password: bytes, salt: bytes) -> str:
    """A hash as RabbitMQ's definitions carry it, by the default algorithm, with the first bytes of a salt."""
    salt = salt[:SALT_BYTES]
    digest = hashlib.new(_DIGESTS[DEFAULT_ALGORITHM], salt + password).digest()
    return b64encode(salt + digest).decode()


def split_imported_hash(password_hash: str) -> tuple[str, str] | None:
    """Algorithm and base64 of a hash from `imported_hash`; None for any other hash."""
    algorithm, colon, encoded = password_hash.partition(":")  # one of Argon2id has none
    return (algorithm, encoded) if colon else None


def verify_imported(algorithm: str, encoded: str, password: bytes) -> bool:
    """Tell whether the hash is of this password."""
    if algorithm not in _DIGESTS:
        return False
    content = b64decode(encoded)
    salt, stored = content[:SALT_BYTES], content[SALT_BYTES:]
    return hmac.compare_digest(hashlib.new(_DIGESTS[algorithm], salt + password).digest(), stored)
