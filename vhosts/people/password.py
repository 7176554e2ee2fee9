"""Passwords: hashing, and verification in threads, with limits against floods of logins."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import cast

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError

from routelog.vhosts.errors import AuthenticationBusy, InvalidUser, TooManyFailedLogins
from routelog.vhosts.people.client_address import source_of
from routelog.vhosts.people.failed_logins import FailedLogins
from routelog.vhosts.people.imported_password import split_imported_hash, verify_imported
from routelog.vhosts.people.login_queue import LoginJob, LoginQueue
from routelog.vhosts.stored.user import User

# OWASP's minimum for Argon2id (Password Storage Cheat Sheet): about 30 ms and 19 MiB for each.
MEMORY_KIB = 19 * 1024
PASSES = 2
LANES = 1
CACHE_SECONDS = 60.0  # a client that reconnects in a loop costs one hash a minute
CACHE_ENTRIES_MAX = 1_024  # about 150 KiB
# RabbitMQ delays each refusal; here the first ten are answered at once, further ones are delayed.
REFUSAL_SECONDS = 3.0
REST_SECONDS = 0.1  # until waiting sources are checked again
REFUSALS_MAX = 1_024  # delayed refusals, about 2 KiB each; further ones are answered at once
KEY_BYTES = 32

NO_PASSWORD_HASH = ""  # of a user that cannot log in with a password
# The hash of 32 discarded random bytes: an unknown user takes as long to verify as a known one.
DUMMY_HASH = (
    "$argon2id$v=19$m=19456,t=2,p=1$2wAFEWUCYVXysbn0K0fDyQ"
    "$4oZZvHg9Zxrw6PUXssVyyWFLd/g8LU79iiCpCvu7zCg"
)

_HASHER = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)


def hash_password(password: bytes) -> str:
    """Return the Argon2id hash of a password, in the usual encoded form; this takes 30 ms.

    The empty password gives `NO_PASSWORD_HASH`.
    """
    return _HASHER.hash(password) if password else NO_PASSWORD_HASH


def check_hash(password_hash: str) -> None:
    """Refuse a text that is no Argon2id hash, or a hash with higher costs than those of `hash_password`.

    Raises:
        InvalidUser: the hash is refused; verifying it could take all memory.
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
        _matches(DUMMY_HASH, password)  # so that the time does not show whose hash is imported
        return verify_imported(*imported, password)
    return _matches(password_hash, password)


def _matches(password_hash: str, password: bytes) -> bool:
    try:
        return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError, UnicodeEncodeError):
        return False


class PasswordVerifier:
    """Verifies logins off the event loop; all methods are called on the loop.

    A correct password is cached for a minute under a keyed digest that covers the user's hash, so a changed
    password takes effect at once; a login with a cached password does not wait.
    Equal logins at the same time share one answer: a thousand connections that come back after a restart
    cost one hash. Other logins take turns, see `LoginQueue`; after many failures they are refused, see
    `FailedLogins`.

    Args:
        now: a monotonic clock, in seconds.
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
        self._working = 0  # busy threads
        self._queue = LoginQueue()
        self._failures = FailedLogins(now)
        # Set when all waiting logins are of sources that must wait
        self._timer: asyncio.TimerHandle | None = None
        self._refusals = 0  # delayed refusals
        self._running_jobs: dict[tuple[str, bytes], LoginJob] = {}
        self._right_until: dict[bytes, float] = {}  # in the order of expiry

    def remembers(self, user: User, password: bytes) -> bool:
        """Tell whether `verify` needs no thread: the password was found right less than a minute ago."""
        digest = self._digest(user.name.encode(), user.password_hash.encode(), password)
        return bool(password) and self._is_right(digest)

    async def verify(
        self, user: User | None, password: bytes, *, name: str, peer: str | None
    ) -> bool:
        """Tell whether `password` is the user's; None stands for a user that does not exist.

        It takes as long for a user without a password, or an unknown user, as for any other.

        Args:
            name: as given by the client, known or not.
            peer: address of the client; None: a Unix socket.

        Raises:
            AuthenticationBusy: too many wait already.
            TooManyFailedLogins: the password was not checked. The answer is delayed by some seconds.
        """
        if not password:
            return False
        known_name = "" if user is None else user.name
        password_hash = NO_PASSWORD_HASH if user is None else user.password_hash
        has_password = password_hash != NO_PASSWORD_HASH
        password_hash = password_hash or DUMMY_HASH
        digest = self._digest(known_name.encode(), password_hash.encode(), password)
        if self._is_right(digest):
            return has_password
        work = partial(verify_password, password_hash, password)
        try:
            matches = await self._verified(source_of(peer), name, digest, work)
        except TooManyFailedLogins:
            await self._put_off()
            raise
        return matches and has_password

    async def hash(self, password: bytes) -> str:
        """Hash a password with `hash_password` in one of the threads.

        Raises:
            AuthenticationBusy: too many wait already.
        """
        return cast(str, await self._worked(partial(hash_password, password)))

    async def matches(self, password_hash: str, password: bytes) -> bool:
        """Tell whether the hash is of this password; nobody is logging in, and no failure is counted.

        Raises:
            AuthenticationBusy: too many wait already.
        """
        return bool(await self._worked(partial(verify_password, password_hash, password)))

    async def _worked(self, work: Callable[[], object]) -> object:
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._add(LoginJob("hash", False, b"", None, work, answer))
        return await asyncio.shield(answer)

    def close(self) -> None:
        """End the threads; waiting jobs are cancelled."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._timer is not None:
            self._timer.cancel()
        while (job := self._queue.next()) is not None:
            job.answer.cancel()

    async def _verified(
        self, source: str, name: str, digest: bytes, work: Callable[[], bool]
    ) -> bool:
        user = self._digest(name.encode(errors="surrogateescape"))
        job = self._running_jobs.get((source, digest))
        if job is None:
            if not self._failures.may_try(source, user):
                raise TooManyFailedLogins
            answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            is_known = self._failures.is_known(source, user)
            job = LoginJob(source, is_known, user, digest, work, answer)
            self._running_jobs[source, digest] = job
            answer.add_done_callback(lambda _: self._running_jobs.pop((source, digest)))
            self._add(job)
        return bool(await asyncio.shield(job.answer))  # other calls may await the same job

    async def _put_off(self) -> None:
        # So a client that retries for ever without a pause costs little.
        if self._refusals < REFUSALS_MAX:
            self._refusals += 1
            try:
                await asyncio.sleep(REFUSAL_SECONDS)
            finally:
                self._refusals -= 1

    # -- the threads

    def _add(self, job: LoginJob) -> None:
        leaving = self._queue.add(job)
        if leaving is not None and not leaving.answer.done():
            leaving.answer.set_exception(AuthenticationBusy("too many logins wait to be verified"))
        self._go_on()

    def _go_on(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        while self._working < self._threads:
            job = self._queue.next(self._failures.rests)
            if job is None:
                break
            if job.answer.done() or self._is_decided(job):
                continue
            self._working += 1
            done = loop.run_in_executor(self._pool, job.work)
            done.add_done_callback(partial(self._finished, job))
        if self._queue and not self._working:  # else what comes back goes on
            self._timer = loop.call_later(REST_SECONDS, self._go_on)

    def _is_decided(self, job: LoginJob) -> bool:
        # An equal login may have been answered meanwhile.
        if job.digest is None:
            return False
        if self._is_right(job.digest):
            job.answer.set_result(True)
        elif not self._failures.may_try(job.source, job.user):
            job.answer.set_exception(TooManyFailedLogins())
        else:
            return False
        return True

    def _finished(self, job: LoginJob, done: asyncio.Future[object]) -> None:
        self._working -= 1
        if done.cancelled():
            job.answer.cancel()
            return
        if job.digest is not None and done.exception() is None:
            self._note(job, job.digest, right=bool(done.result()))
        if not job.answer.done():
            _pass_on(done, job.answer)
        self._go_on()

    def _note(self, job: LoginJob, digest: bytes, *, right: bool) -> None:
        if right:
            self._failures.succeeded(job.source, job.user)
            self._remember(digest)
            return
        self._failures.failed(job.source, job.user)
        if not self._failures.may_try(job.source, job.user):
            for each in self._queue.take_like(job):
                if not each.answer.done():
                    self._is_decided(each)

    # -- what was found right

    def _is_right(self, digest: bytes) -> bool:
        return self._right_until.get(digest, 0.0) > self._now()

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
        return blake2b(message, key=self._key, digest_size=32).digest()


def _pass_on(done: asyncio.Future[object], answer: asyncio.Future[object]) -> None:
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    else:
        answer.set_exception(error)
