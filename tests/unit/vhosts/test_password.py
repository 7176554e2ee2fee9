import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from argon2 import PasswordHasher, extract_parameters

from vhosts import password as password_module
from vhosts.errors import AuthenticationBusy
from vhosts.password import (
    CACHE_ENTRIES_MAX,
    CACHE_SECONDS,
    DUMMY_HASH,
    KEY_BYTES,
    LANES,
    MEMORY_KIB,
    NO_PASSWORD_HASH,
    PASSES,
    QUEUE_MAX,
    PasswordVerifier,
    hash_password,
    verify_password,
)
from vhosts.user import User

KEY = bytes(KEY_BYTES)
HASH = hash_password(b"right")
ALICE = User("alice", HASH)
DEADLINE_SECONDS = 60.0


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class CountedKdf:
    """Stands in for the 30 ms of Argon2: "right" matches any hash; it may wait for a gate."""

    def __init__(self) -> None:
        self.hashes: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, password_hash: str, password: bytes) -> bool:
        assert self.gate.wait(DEADLINE_SECONDS)
        self.hashes.append(password_hash)
        return password == b"right"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kdf(monkeypatch: pytest.MonkeyPatch) -> CountedKdf:
    kdf = CountedKdf()
    monkeypatch.setattr(password_module, "verify_password", kdf)
    return kdf


@pytest.fixture
async def verifier(clock: Clock) -> AsyncIterator[PasswordVerifier]:
    verifier = PasswordVerifier(clock, key=KEY, threads=1)
    yield verifier
    verifier.close()


def test_a_hash_is_of_its_password_only() -> None:
    assert verify_password(HASH, b"right")
    assert not verify_password(HASH, b"Right")
    assert not verify_password(HASH, b"right\x00")


def test_a_hash_has_the_strength_asked_for_and_a_salt_of_its_own() -> None:
    assert HASH.startswith(f"$argon2id$v=19$m={19 * 1024},t=2,p=1$")
    assert hash_password(b"right") != HASH


def test_the_empty_password_has_no_hash_and_matches_none() -> None:
    assert hash_password(b"") == NO_PASSWORD_HASH
    assert not verify_password(NO_PASSWORD_HASH, b"")
    assert not verify_password(PasswordHasher().hash(b""), b"")


@pytest.mark.parametrize(
    "broken",
    ["", "plain", "$argon2id$", pytest.param(HASH[:-5], id="cut"), "$argon2id$v=19$m=8\udcff"],
)
def test_a_hash_that_cannot_be_read_matches_nothing(broken: str) -> None:
    assert not verify_password(broken, b"right")


def test_the_dummy_hash_costs_what_others_cost() -> None:
    assert extract_parameters(DUMMY_HASH) == extract_parameters(HASH)
    assert (MEMORY_KIB, PASSES, LANES) == (19_456, 2, 1)


async def test_a_login_is_right_or_wrong(verifier: PasswordVerifier) -> None:
    assert await verifier.verify(ALICE, b"right")
    assert not await verifier.verify(ALICE, b"wrong")
    assert not await verifier.verify(None, b"right")
    assert not await verifier.verify(User("nobody", NO_PASSWORD_HASH), b"right")


async def test_a_hash_made_in_a_thread_is_verified(verifier: PasswordVerifier) -> None:
    assert verify_password(await verifier.hash(b"secret"), b"secret")


async def test_the_empty_password_is_refused_without_a_hash(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    for user in (ALICE, None, User("nobody", NO_PASSWORD_HASH)):
        assert not await verifier.verify(user, b"")
    assert kdf.hashes == []


async def test_an_unknown_user_runs_the_dummy_and_is_refused_even_if_it_matched(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    for _ in range(2):
        assert not await verifier.verify(None, b"right")
        assert not await verifier.verify(User("nobody", NO_PASSWORD_HASH), b"right")
    assert set(kdf.hashes) == {DUMMY_HASH}


async def test_a_right_password_is_remembered_for_a_minute(
    verifier: PasswordVerifier, kdf: CountedKdf, clock: Clock
) -> None:
    assert await verifier.verify(ALICE, b"right")
    clock.seconds += CACHE_SECONDS - 0.1
    assert await verifier.verify(ALICE, b"right")
    assert len(kdf.hashes) == 1
    clock.seconds += 0.1  # being used does not prolong it
    assert await verifier.verify(ALICE, b"right")
    assert len(kdf.hashes) == 2


async def test_a_wrong_password_is_not_remembered(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    for _ in range(2):
        assert not await verifier.verify(ALICE, b"wrong")
    assert len(kdf.hashes) == 2


async def test_what_is_remembered_is_of_one_user_hash_and_password(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    assert await verifier.verify(User("ab", "c"), b"right")
    others = [User("a", "bc"), User("ab", "c2"), User("ab2", "c")]
    for user in others:
        assert await verifier.verify(user, b"right")
    assert not await verifier.verify(User("ab", "c"), b"right2")
    assert len(kdf.hashes) == 2 + len(others)


async def test_no_password_is_kept_in_the_cache(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    await verifier.verify(ALICE, b"right")
    assert b"right" not in b"".join(verifier._right_until)


async def test_the_cache_is_bounded(verifier: PasswordVerifier, kdf: CountedKdf) -> None:
    for number in range(CACHE_ENTRIES_MAX + 1):
        assert await verifier.verify(User(f"user{number}", HASH), b"right")
    asked = len(kdf.hashes)
    assert await verifier.verify(User("user1", HASH), b"right")
    assert len(kdf.hashes) == asked
    assert await verifier.verify(User("user0", HASH), b"right")
    assert len(kdf.hashes) == asked + 1
    assert len(verifier._right_until) == CACHE_ENTRIES_MAX


async def test_logins_that_ask_the_same_at_the_same_time_share_one_hash(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    for password, expected in [(b"right", True), (b"wrong", False)]:
        kdf.hashes.clear()
        answers = await asyncio.gather(*(verifier.verify(ALICE, password) for _ in range(500)))
        assert answers == [expected] * 500
        assert len(kdf.hashes) == 1


async def test_too_many_waiting_logins_are_refused_until_some_are_done(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    kdf.gate.clear()
    users = [User(f"user{number}", HASH) for number in range(1 + QUEUE_MAX)]
    logins = [asyncio.create_task(verifier.verify(user, b"right")) for user in users]
    await asyncio.sleep(0)
    with pytest.raises(AuthenticationBusy):
        await verifier.verify(ALICE, b"right")
    with pytest.raises(AuthenticationBusy):
        await verifier.hash(b"right")
    kdf.gate.set()
    assert all(await asyncio.gather(*logins))
    assert await verifier.verify(ALICE, b"right")


async def test_a_cancelled_login_does_not_disturb_one_that_asks_the_same(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    kdf.gate.clear()
    cancelled = asyncio.create_task(verifier.verify(ALICE, b"right"))
    kept = asyncio.create_task(verifier.verify(ALICE, b"right"))
    await asyncio.sleep(0)
    cancelled.cancel()
    kdf.gate.set()
    assert await kept
    assert cancelled.cancelled()


async def test_the_event_loop_runs_while_a_password_is_hashed(verifier: PasswordVerifier) -> None:
    turns = 0
    users = [User(f"user{number}", HASH) for number in range(10)]
    logins = asyncio.gather(*(verifier.verify(user, b"right") for user in users))
    while not logins.done():
        turns += 1
        await asyncio.sleep(0)
    assert all(await logins)
    assert turns > 10
