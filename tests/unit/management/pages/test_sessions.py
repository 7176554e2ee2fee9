"""Who has signed in."""

import pytest
from unit.management.managed_node import ManagedNode

from routelog.management.pages import sessions as sessions_module
from routelog.management.pages.sessions import SESSION_SECONDS, Sessions
from routelog.vhosts import User


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def sessions(node: ManagedNode, clock: Clock) -> Sessions:
    await node.user("u", "management")
    return Sessions(node.users, clock)


async def test_a_cookie_is_of_its_session_until_it_ends(
    node: ManagedNode, sessions: Sessions, clock: Clock
) -> None:
    cookie = sessions.begin(node.users.get("u"))
    found = sessions.find(cookie)
    assert found is not None
    assert found.user.name == "u"
    assert found.form_token != cookie
    assert sessions.find(cookie + "x") is sessions.find("") is None
    clock.seconds += SESSION_SECONDS - 1
    assert sessions.find(cookie) is found
    clock.seconds += 1
    assert sessions.find(cookie) is None
    cookie = sessions.begin(node.users.get("u"))
    sessions.end(cookie)
    sessions.end(cookie)
    assert sessions.find(cookie) is None


@pytest.mark.parametrize("change", ["password", "tags", "gone"])
async def test_a_session_ends_with_what_its_user_was(
    node: ManagedNode, sessions: Sessions, change: str
) -> None:
    cookie = sessions.begin(node.users.get("u"))
    if change == "password":
        await node.users.put_user(User("u", "hash of another", ("management",)))
    elif change == "tags":
        await node.users.set_tags("u", ())
    else:
        await node.users.delete_user("u")
    assert sessions.find(cookie) is None


async def test_the_oldest_session_of_a_user_makes_room(
    node: ManagedNode, sessions: Sessions, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "SESSIONS_OF_USER_MAX", 2)
    await node.user("other", "management")
    other = sessions.begin(node.users.get("other"))
    cookies = [sessions.begin(node.users.get("u")) for _ in range(3)]
    assert [sessions.find(each) is not None for each in cookies] == [False, True, True]
    assert sessions.find(other) is not None
    clock.seconds += SESSION_SECONDS
    sessions.begin(node.users.get("u"))
    assert len(sessions._sessions) == 1  # those that ended are forgotten
