import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from argon2 import PasswordHasher, extract_parameters

from routelog.vhosts.errors import AuthenticationBusy, TooManyFailedLogins
from routelog.vhosts.people import password as password_module
from routelog.vhosts.people.failed_logins import FAILURES_MAX, SOURCE_SECONDS, USER_SECONDS
from routelog.vhosts.people.login_queue import QUEUE_MAX
from routelog.vhosts.people.password import (
    CACHE_ENTRIES_MAX,
    CACHE_SECONDS,
    DUMMY_HASH,
    KEY_BYTES,
    LANES,
    MEMORY_KIB,
    NO_PASSWORD_HASH,
    PASSES,
    REFUSALS_MAX,
    PasswordVerifier,
    hash_password,
    verify_password,
)
from routelog.vhosts.stored.user import User

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


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_module, "REFUSAL_SECONDS", 0.0)


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


async def ask(
    verifier: PasswordVerifier,
    user: User | None,
    password: bytes,
    peer: str | None = "192.0.2.1",
    name: str = "",
) -> bool:
    name = name or ("" if user is None else user.name)
    return await verifier.verify(user, password, name=name, peer=peer)


async def test_a_login_is_right_or_wrong(verifier: PasswordVerifier) -> None:
    assert await ask(verifier, ALICE, b"right")
    assert not await ask(verifier, ALICE, b"wrong")
    assert not await ask(verifier, None, b"right")
    assert not await ask(verifier, User("nobody", NO_PASSWORD_HASH), b"right")


async def test_a_hash_made_in_a_thread_is_verified(verifier: PasswordVerifier) -> None:
    assert verify_password(await verifier.hash(b"secret"), b"secret")


async def test_the_empty_password_is_refused_without_a_hash(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    for user in (ALICE, None, User("nobody", NO_PASSWORD_HASH)):
        assert not await ask(verifier, user, b"")
    assert kdf.hashes == []


async def test_an_unknown_user_runs_the_dummy_and_is_refused_even_if_it_matched(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    for _ in range(2):
        assert not await ask(verifier, None, b"right")
        assert not await ask(verifier, User("nobody", NO_PASSWORD_HASH), b"right")
    assert set(kdf.hashes) == {DUMMY_HASH}


async def test_a_right_password_is_remembered_for_a_minute(
    verifier: PasswordVerifier, kdf: CountedKdf, clock: Clock
) -> None:
    assert await ask(verifier, ALICE, b"right")
    clock.seconds += CACHE_SECONDS - 0.1
    assert await ask(verifier, ALICE, b"right")
    assert len(kdf.hashes) == 1
    clock.seconds += 0.1  # being used does not prolong it
    assert await ask(verifier, ALICE, b"right")
    assert len(kdf.hashes) == 2


async def test_a_wrong_password_is_not_remembered(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    for _ in range(2):
        assert not await ask(verifier, ALICE, b"wrong")
    assert len(kdf.hashes) == 2


async def test_what_is_remembered_is_of_one_user_hash_and_password(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    assert await ask(verifier, User("ab", "c"), b"right")
    others = [User("a", "bc"), User("ab", "c2"), User("ab2", "c")]
    for user in others:
        assert await ask(verifier, user, b"right")
    assert not await ask(verifier, User("ab", "c"), b"right2")
    assert len(kdf.hashes) == 2 + len(others)


async def test_no_password_is_kept_in_the_cache(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    await ask(verifier, ALICE, b"right")
    assert b"right" not in b"".join(verifier._right_until)


async def test_the_cache_is_bounded(verifier: PasswordVerifier, kdf: CountedKdf) -> None:
    for number in range(CACHE_ENTRIES_MAX + 1):
        assert await ask(verifier, User(f"user{number}", HASH), b"right")
    asked = len(kdf.hashes)
    assert await ask(verifier, User("user1", HASH), b"right")
    assert len(kdf.hashes) == asked
    assert await ask(verifier, User("user0", HASH), b"right")
    assert len(kdf.hashes) == asked + 1
    assert len(verifier._right_until) == CACHE_ENTRIES_MAX


async def test_logins_that_ask_the_same_at_the_same_time_share_one_hash(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    for password, expected in [(b"right", True), (b"wrong", False)]:
        kdf.hashes.clear()
        answers = await asyncio.gather(*(ask(verifier, ALICE, password) for _ in range(500)))
        assert answers == [expected] * 500
        assert len(kdf.hashes) == 1


async def test_too_many_waiting_logins_are_refused_until_some_are_done(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    kdf.gate.clear()
    users = [User(f"user{number}", HASH) for number in range(1 + QUEUE_MAX)]
    logins = [asyncio.create_task(ask(verifier, user, b"right")) for user in users]
    await asyncio.sleep(0)
    late = asyncio.create_task(ask(verifier, ALICE, b"right"))
    hashing = asyncio.create_task(verifier.hash(b"right"))
    other = asyncio.create_task(ask(verifier, ALICE, b"right", "192.0.2.2"))
    await asyncio.sleep(0)
    kdf.gate.set()
    outcomes = await asyncio.gather(*logins, late, return_exceptions=True)
    # Each made room that came later, and of the source that has most of them.
    assert [type(each) for each in outcomes].count(AuthenticationBusy) == 3
    assert outcomes.count(True) == len(users) - 2
    assert await other
    assert await hashing
    assert await ask(verifier, ALICE, b"right")


async def test_a_cancelled_login_does_not_disturb_one_that_asks_the_same(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    kdf.gate.clear()
    cancelled = asyncio.create_task(ask(verifier, ALICE, b"right"))
    kept = asyncio.create_task(ask(verifier, ALICE, b"right"))
    await asyncio.sleep(0)
    cancelled.cancel()
    kdf.gate.set()
    assert await kept
    assert cancelled.cancelled()


async def test_the_event_loop_runs_while_a_password_is_hashed(verifier: PasswordVerifier) -> None:
    turns = 0
    users = [User(f"user{number}", HASH) for number in range(10)]
    logins = asyncio.gather(*(ask(verifier, user, b"right") for user in users))
    while not logins.done():
        turns += 1
        await asyncio.sleep(0)
    assert all(await logins)
    assert turns > 10


CROWD, HONEST = "192.0.2.7", "192.0.2.8"


async def outcome(login: asyncio.Task[bool]) -> bool | type[Exception]:
    try:
        return await login
    except (TooManyFailedLogins, AuthenticationBusy) as error:
        return type(error)


@pytest.mark.parametrize("count", [64, 300])
@pytest.mark.parametrize("names", ["one name", "many names"])
async def test_an_honest_login_waits_for_one_hash_of_a_crowd_of_wrong_ones(
    verifier: PasswordVerifier, kdf: CountedKdf, count: int, names: str
) -> None:
    kdf.gate.clear()
    crowd = [
        asyncio.create_task(
            ask(
                verifier,
                User("eve" if names == "one name" else f"eve{number}", HASH),
                b"wrong %d" % number,
                CROWD,
            )
        )
        for number in range(count)
    ]
    await asyncio.sleep(0)
    honest = asyncio.create_task(ask(verifier, User("alice", "alice's"), b"right", HONEST))
    await asyncio.sleep(0)
    kdf.gate.set()
    assert await honest
    assert kdf.hashes.index("alice's") <= 2  # behind the one under way, and perhaps the next
    for login in crowd:
        login.cancel()


async def test_within_a_source_users_take_turns(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    kdf.gate.clear()
    crowd = [
        asyncio.create_task(ask(verifier, User("eve", HASH), b"wrong %d" % number, CROWD))
        for number in range(8)
    ]
    await asyncio.sleep(0)
    honest = asyncio.create_task(ask(verifier, User("alice", "alice's"), b"right", CROWD))
    await asyncio.sleep(0)
    kdf.gate.set()
    assert await honest
    assert kdf.hashes.index("alice's") <= 2
    await asyncio.gather(*crowd)


async def test_who_fails_too_often_is_refused_without_a_hash(
    verifier: PasswordVerifier, kdf: CountedKdf, clock: Clock
) -> None:
    for number in range(FAILURES_MAX):
        assert not await ask(verifier, ALICE, b"wrong %d" % number, CROWD)
    for number in range(3):
        with pytest.raises(TooManyFailedLogins):
            await ask(verifier, ALICE, b"other %d" % number, CROWD)
    assert len(kdf.hashes) == FAILURES_MAX
    clock.seconds += USER_SECONDS
    assert not await ask(verifier, ALICE, b"wrong", CROWD)
    with pytest.raises(TooManyFailedLogins):
        await ask(verifier, ALICE, b"right", CROWD)
    clock.seconds += USER_SECONDS
    assert await ask(verifier, ALICE, b"right", CROWD)
    assert not await ask(verifier, ALICE, b"wrong", CROWD)  # which is forgiven him


async def test_wrong_logins_that_wait_together_are_hashed_so_often_and_no_more(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    logins = [
        asyncio.create_task(ask(verifier, ALICE, b"wrong %d" % number, CROWD))
        for number in range(300)
    ]
    outcomes = [await outcome(login) for login in logins]
    assert len(kdf.hashes) == outcomes.count(False) == FAILURES_MAX
    assert outcomes.count(TooManyFailedLogins) >= QUEUE_MAX - FAILURES_MAX


async def test_failures_from_everywhere_lock_out_nobody_who_comes_from_elsewhere(
    verifier: PasswordVerifier, kdf: CountedKdf, clock: Clock
) -> None:
    sources = [f"198.51.100.{number}" for number in range(FAILURES_MAX)]
    for source in sources:
        assert not await ask(verifier, ALICE, b"wrong", source)
    for source in sources:  # each has had its one
        with pytest.raises(TooManyFailedLogins):
            await ask(verifier, ALICE, b"other", source)
    assert await ask(verifier, ALICE, b"right", HONEST)


async def test_a_password_that_was_found_right_passes_whatever_has_failed(
    verifier: PasswordVerifier, kdf: CountedKdf
) -> None:
    assert await ask(verifier, ALICE, b"right", CROWD)
    for number in range(FAILURES_MAX):
        assert not await ask(verifier, ALICE, b"wrong %d" % number, CROWD)
    with pytest.raises(TooManyFailedLogins):
        await ask(verifier, ALICE, b"other", CROWD)
    kdf.gate.clear()
    assert await ask(verifier, ALICE, b"right", CROWD)
    kdf.gate.set()


async def test_a_source_that_tries_many_names_is_slowed_down_and_those_it_knows_are_not(
    verifier: PasswordVerifier, kdf: CountedKdf, clock: Clock
) -> None:
    assert await ask(verifier, User("bob", HASH), b"right", CROWD)
    for number in range(FAILURES_MAX):
        assert not await ask(verifier, None, b"wrong %d" % number, CROWD, f"eve{number}")
    fresh = asyncio.create_task(ask(verifier, ALICE, b"right", CROWD))
    await asyncio.sleep(0)
    kdf.hashes.clear()
    assert not await ask(verifier, User("bob", HASH), b"wrong", CROWD)
    assert await ask(verifier, User("carol", HASH), b"right", HONEST)
    assert len(kdf.hashes) == 2
    assert not fresh.done()
    clock.seconds += 2 * SOURCE_SECONDS
    assert await fresh


async def test_a_refusal_without_a_look_is_put_off(
    verifier: PasswordVerifier, kdf: CountedKdf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(FAILURES_MAX):
        await ask(verifier, ALICE, b"wrong %d" % number)
    monkeypatch.setattr(password_module, "REFUSAL_SECONDS", DEADLINE_SECONDS)
    waiting = [asyncio.create_task(ask(verifier, ALICE, b"other")) for _ in range(REFUSALS_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyFailedLogins):
        await ask(verifier, ALICE, b"other")  # one more is told at once
    assert not any(login.done() for login in waiting)
    for login in waiting:
        login.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert verifier._refusals == 0
