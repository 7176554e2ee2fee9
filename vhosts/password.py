"""Passwords: hashes, and threads to verify logins that a flood of them cannot overrun."""

import asyncio
import hmac
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError

from vhosts.errors import AuthenticationBusy, InvalidUser
from vhosts.imported_password import split_imported_hash, verify_imported
from vhosts.user import User

# OWASP's minimum for Argon2id (Password Storage Cheat Sheet): about 30 ms and 19 MiB for each.
MEMORY_KIB = 19 * 1024
PASSES = 2
LANES = 1
QUEUE_MAX = 256  # logins that wait for a thread: about 8 s of work for one
CACHE_SECONDS = 60.0  # a client that reconnects in a loop costs one hash a minute
CACHE_ENTRIES_MAX = 1_024  # about 150 KiB
KEY_BYTES = 32

NO_PASSWORD_HASH = ""  # of a user that cannot log in with a password
# Of 32 random bytes that nobody kept: makes an unknown user cost what a known one does.
DUMMY_HASH = (
    "$argon2id$v=19$m=19456,t=2,p=1$2wAFEWUCYVXysbn0K0fDyQ"
    "$4oZZvHg9Zxrw6PUXssVyyWFLd/g8LU79iiCpCvu7zCg"
)

_HASHER = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)
_Result = TypeVar("_Result")


def hash_password(password: bytes) -> str:
    """Return the Argon2id hash of a password, in the usual encoded form; this takes 30 ms.

    The empty password gives `NO_PASSWORD_HASH`.
    """
    return _HASHER.hash(password) if password else NO_PASSWORD_HASH


def check_hash(password_hash: str) -> None:
    """Refuse what is no Argon2id hash, or one that costs more than those that are made here.

    Raises:
        InvalidUser: whoever logs in with it would take the node's memory.
    """
    try:
        costs = extract_parameters(password_hash)
    except (InvalidHashError, ValueError):
        raise InvalidUser("the password hash is none of Argon2id") from None
    if costs.type is not Type.ID:
        raise InvalidUser("the password hash is none of Argon2id")
    if costs.memory_cost > MEMORY_KIB or costs.time_cost > PASSES or costs.parallelism > LANES:
        most = f"m={MEMORY_KIB},t={PASSES},p={LANES}"
        raise InvalidUser(f"the password hash costs more than {most}")


def verify_password(password_hash: str, password: bytes) -> bool:
    """Tell whether the hash is of this password; this takes 30 ms.

    An empty password never matches, and neither does a hash that cannot be read.
    """
    if not password:
        return False
    imported = split_imported_hash(password_hash)
    if imported is not None:
        _matches(DUMMY_HASH, password)  # so that nobody can tell by the time whose hash is imported
        return verify_imported(*imported, password)
    return _matches(password_hash, password)


def _matches(password_hash: str, password: bytes) -> bool:
    try:
        return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError, UnicodeEncodeError):
        return False


class PasswordVerifier:
    """Verifies logins off the event loop; all methods are called on the loop.

    A password that was found right is remembered for a minute under a keyed digest that covers
    the user's hash, so a changed password is asked for at once. Logins that ask the same at the
    same time share one answer: a thousand connections that come back after a restart cost one
    hash.

    Args:
        now: a clock that does not go back, in seconds.
        key: `KEY_BYTES` secret bytes for the digests, drawn at random for each run of the node.
        threads: at most the number of cores; each needs 19 MiB while it works.
    """

    def __init__(
        self,
        now: Callable[[], float],
        *,
        key: bytes,
        threads: int | None = None,
    ) -> None:
        cores = os.cpu_count() or 1
        # One core is left to the event loop.
        self._threads = max(1, min(cores, threads if threads is not None else cores - 1))
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="password")
        self._now = now
        self._key = key
        self._jobs = 0  # given to the pool, not yet finished
        self._running: dict[bytes, asyncio.Future[bool]] = {}
        self._right_until: dict[bytes, float] = {}  # in the order of expiry

    async def verify(self, user: User | None, password: bytes) -> bool:
        """Tell whether `password` is the user's; None stands for a user that does not exist.

        It takes as long for a user without a password, or for none at all, as for any other.

        Raises:
            AuthenticationBusy: too many wait already.
        """
        if not password:
            return False
        name = "" if user is None else user.name
        password_hash = NO_PASSWORD_HASH if user is None else user.password_hash
        has_password = password_hash != NO_PASSWORD_HASH
        matches = await self._matches(name, password_hash or DUMMY_HASH, password)
        return matches and has_password

    async def hash(self, password: bytes) -> str:
        """Hash a password with `hash_password` in one of the threads.

        Raises:
            AuthenticationBusy: too many wait already.
        """
        return await asyncio.shield(self._start(partial(hash_password, password)))

    def close(self) -> None:
        """End the threads; what waits for one is cancelled."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _matches(self, name: str, password_hash: str, password: bytes) -> bool:
        digest = self._digest(name.encode(), password_hash.encode(), password)
        if self._right_until.get(digest, 0.0) > self._now():
            return True
        job = self._running.get(digest)
        if job is None:
            job = self._start(partial(verify_password, password_hash, password))
            self._running[digest] = job
            job.add_done_callback(partial(self._verified, digest))
        return await asyncio.shield(job)  # others may wait for it too

    def _start(self, function: Callable[[], _Result]) -> asyncio.Future[_Result]:
        if self._jobs >= self._threads + QUEUE_MAX:
            raise AuthenticationBusy("too many logins wait to be verified")
        job = asyncio.get_running_loop().run_in_executor(self._pool, function)
        self._jobs += 1
        job.add_done_callback(self._finished)
        return job

    def _finished(self, _job: asyncio.Future[_Result]) -> None:
        self._jobs -= 1

    def _verified(self, digest: bytes, job: asyncio.Future[bool]) -> None:
        del self._running[digest]
        if not job.cancelled() and job.exception() is None and job.result():
            self._remember(digest)

    def _remember(self, digest: bytes) -> None:
        now = self._now()
        self._right_until.pop(digest, None)
        while self._right_until:
            oldest = next(iter(self._right_until))
            if len(self._right_until) < CACHE_ENTRIES_MAX and self._right_until[oldest] > now:
                break
            del self._right_until[oldest]
        self._right_until[digest] = now + CACHE_SECONDS

    def _digest(self, *parts: bytes) -> bytes:
        # Lengths keep ("ab", "c") and ("a", "bc") apart.
        message = b"".join(len(part).to_bytes(8) + part for part in parts)
        return hmac.digest(self._key, message, "sha256")
