"""The randomness door."""

import random
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


def random_below(end: int) -> int:
    """A number from 0 to below `end`; fast, but predictable."""
    return int(random.random() * end)
