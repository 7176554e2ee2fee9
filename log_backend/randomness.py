"""The randomness door."""

import secrets


def random_key() -> bytes:
    """32 bytes that nobody can guess."""
    return secrets.token_bytes(32)


def random_name() -> str:
    """22 characters that nobody can guess, safe in names and URLs."""
    return secrets.token_urlsafe(16)


def random_number() -> int:
    """64 bits that nobody can guess."""
    return secrets.randbits(64)
