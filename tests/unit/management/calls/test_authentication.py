"""Headers that say who calls, and all that is refused."""

from base64 import b64encode

import pytest
from unit.management.managed_node import ManagedNode

from routelog.management.calls.authentication import HEADER_CHARACTERS_MAX, authenticated
from routelog.management.calls.caller import Caller
from routelog.management.calls.failures import Refused

HERE, ELSEWHERE = "127.0.0.1", "10.0.0.9"


def basic(text: str) -> str:
    return "Basic " + b64encode(text.encode()).decode()


async def caller(node: ManagedNode, header: str, peer: str | None = ELSEWHERE) -> Caller:
    return await authenticated(node.broker, "token", node.tokens, header, peer)


async def test_a_user_shows_his_password(node: ManagedNode) -> None:
    await node.user("u", "management")
    found = await caller(node, basic("u:secret"))
    assert (found.name, found.tags, found.is_local) == ("u", ("management",), False)


@pytest.mark.parametrize(
    ("header", "cause"),
    [
        (basic("u:wrong"), "wrong password"),
        (basic("nobody:secret"), "no such user"),
        (basic("secret"), "malformed"),
        ("Basic ?", "malformed"),
        ("Basic /w==", "malformed"),
        (basic("u:" + "x" * HEADER_CHARACTERS_MAX), "longer"),
        ("Digest u", "no basic authentication"),
        ("", "no basic authentication"),
        ("Bearer wrong", "not the token"),
        ("Bearer ü", "not the token"),
    ],
)
async def test_whatever_is_wrong_the_answer_is_the_same(
    node: ManagedNode, header: str, cause: str
) -> None:
    await node.user("u")
    with pytest.raises(Refused) as raised:
        await caller(node, header, HERE)
    assert (raised.value.status, raised.value.reason) == (401, "Login failed")
    assert cause in raised.value.cause


async def test_the_token_of_this_run_opens_all_from_this_machine_only(node: ManagedNode) -> None:
    assert (await caller(node, "Bearer token", HERE)).is_local
    for peer in (ELSEWHERE, None):
        with pytest.raises(Refused, match="Login failed"):
            await caller(node, "Bearer token", peer)


async def test_some_users_come_from_this_machine_only(node: ManagedNode) -> None:
    await node.user("guest")
    assert (await caller(node, basic("guest:secret"), HERE)).name == "guest"
    with pytest.raises(Refused, match="only log in via localhost"):
        await caller(node, basic("guest:secret"))


async def test_a_user_who_changes_while_his_password_is_verified_is_refused(
    node: ManagedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.user("u")
    verify = node.broker.passwords.verify

    async def slow(*given: object, **named: object) -> bool:
        found = await verify(*given, **named)
        await node.users.set_tags("u", ("administrator",))
        return found

    monkeypatch.setattr(node.broker.passwords, "verify", slow)
    with pytest.raises(Refused, match="Login failed"):
        await caller(node, basic("u:secret"))


async def test_a_token_for_logs_is_that_of_its_user_and_vhost(node: ManagedNode) -> None:
    for name in ("u", "guest"):
        await node.user(name, "administrator")
    token = node.tokens.issue(node.users.get("u"), "/", 60)
    found = await caller(node, f"Bearer {token}")
    assert (found.name, found.tags, found.only_vhost) == ("u", (), "/")
    for header in (f"Bearer {token}x", f"Bearer {token}{'x' * HEADER_CHARACTERS_MAX}"):
        with pytest.raises(Refused, match="the token is not valid"):
            await caller(node, header)
    of_guest = node.tokens.issue(node.users.get("guest"), "/", 60)
    with pytest.raises(Refused, match="only log in via localhost"):
        await caller(node, f"Bearer {of_guest}")
