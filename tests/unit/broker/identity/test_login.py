"""Who is let in, what the client is told of it, and what the log is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from unit.vhosts.people.test_user_directory import DirectWriter

from routelog.broker.identity.login import Logins
from routelog.broker.node.configuration import BrokerConfig
from routelog.log_backend import MetadataStore, SystemClock
from routelog.vhosts import (
    AuthenticationRefused,
    EventFeed,
    PasswordVerifier,
    TooManyFailedLogins,
    UserDirectory,
)
from routelog.vhosts.people import password as password_module

SUBJECT = ((("commonName", "ann"),),)


class World:
    """Users `ann` and `guest`, and what the log was told."""

    def __init__(self, path: Path) -> None:
        self.store = MetadataStore.open(path)
        clock = SystemClock()
        self.passwords = PasswordVerifier(clock.monotonic, key=b"k" * 32, threads=1)
        self.users = UserDirectory(DirectWriter(self.store), self.passwords.hash)
        self.users.load(self.store)
        self.told: list[tuple[str, Mapping[str, Any]]] = []
        events = EventFeed(lambda: None, clock.now)
        events.watch = lambda key, fields: self.told.append((key, fields))
        config = BrokerConfig(tls_login_from="common_name")
        self.logins = Logins(config, self.users, self.passwords, events, "Talk")

    def causes(self) -> list[object]:
        """What the log was told of refusals."""
        return [fields["cause"] for key, fields in self.told if key.endswith("failure")]


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(password_module, "REFUSAL_SECONDS", 0.0)
    made = World(tmp_path / "metadata")
    await made.users.add_user("ann", b"right")
    await made.users.add_user("guest", b"guest")
    yield made
    made.passwords.close()
    made.store.close()


def client(peer: str = "10.0.0.7", **subject: object) -> Any:
    certificate = {"subject": subject["subject"]} if subject else None
    return SimpleNamespace(name=f"{peer}:4711", peer=peer, certificate=certificate)


async def test_a_password_proves_a_user(world: World) -> None:
    user = await world.logins.by_password(client(), "PLAIN", "ann", b"right")
    assert user.name == "ann"
    said = {"name": "ann", "peer_host": "10.0.0.7", "protocol": "Talk"}
    assert world.told == [("user.authentication.success", said)]


@pytest.mark.parametrize(
    ("name", "password", "cause"),
    [
        ("ann", b"wrong", "wrong password"),
        ("nobody", b"right", "no such user"),
        ("guest", b"guest", "the user, or the built-in password, is for this machine only"),
    ],
)
async def test_the_client_is_told_one_thing_and_the_log_the_cause(
    world: World, name: str, password: bytes, cause: str
) -> None:
    with pytest.raises(AuthenticationRefused) as caught:
        await world.logins.by_password(client(), "PLAIN", name, password)
    assert str(caught.value) == str(AuthenticationRefused())
    (found,) = world.causes()
    assert str(found).startswith(cause)


async def test_the_same_user_may_come_from_this_machine(world: World) -> None:
    user = await world.logins.by_password(client("127.0.0.1"), "PLAIN", "guest", b"guest")
    assert user.name == "guest"


async def test_a_user_that_is_changed_while_it_logs_in_is_not_let_in(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = world.passwords.verify

    async def verified(*of_whom: Any, **more: Any) -> bool:
        is_right: bool = await verify(*of_whom, **more)
        await world.users.delete_user("ann")
        return is_right

    monkeypatch.setattr(world.passwords, "verify", verified)
    with pytest.raises(AuthenticationRefused):
        await world.logins.by_password(client(), "PLAIN", "ann", b"right")
    assert world.causes() == ["wrong password"]


async def test_a_password_that_was_proved_is_remembered_until_it_changes(world: World) -> None:
    assert world.logins.remembered(client(), "ann", b"right") is None
    user = await world.logins.by_password(client(), "PLAIN", "ann", b"right")
    assert world.logins.remembered(client(), "ann", b"right") == user
    assert len(world.told) == 2
    assert world.told[0] == world.told[1]
    assert world.logins.remembered(client(), "ann", b"wrong") is None
    assert world.logins.remembered(client(), "nobody", b"right") is None
    await world.users.delete_user("ann")
    await world.users.add_user("ann", b"other")
    assert world.logins.remembered(client(), "ann", b"right") is None
    assert len(world.told) == 2


async def test_a_remembered_password_is_for_this_machine_only_where_it_was(world: World) -> None:
    await world.logins.by_password(client("127.0.0.1"), "PLAIN", "guest", b"guest")
    assert world.logins.remembered(client("127.0.0.1"), "guest", b"guest") is not None
    assert world.logins.remembered(client(), "guest", b"guest") is None


async def test_too_many_that_failed_are_told_so_and_noted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def verified(*of_whom: Any, **more: Any) -> bool:
        raise TooManyFailedLogins

    monkeypatch.setattr(world.passwords, "verify", verified)
    with pytest.raises(TooManyFailedLogins):
        await world.logins.by_password(client(), "PLAIN", "ann", b"right")
    assert world.causes() == ["too many failed logins"]


async def test_a_certificate_names_a_user(world: World) -> None:
    certified = client(subject=SUBJECT)
    assert world.logins.is_certified(certified, "EXTERNAL")
    assert (await world.logins.by_certificate(certified, "EXTERNAL")).name == "ann"


async def test_a_certificate_that_names_nobody_lets_nobody_in(world: World) -> None:
    stranger = client(subject=((("commonName", "eve"),),))
    assert not world.logins.is_certified(stranger, "EXTERNAL")
    assert world.told == [
        (
            "certificate.unknown",
            {"name": "eve", "address": "10.0.0.7:4711", "cause": "EXTERNAL is not offered"},
        )
    ]
    with pytest.raises(AuthenticationRefused):
        await world.logins.by_certificate(stranger, "EXTERNAL")
    assert world.causes() == ["no user is called as the certificate says"]
    assert not world.logins.is_certified(client(), "EXTERNAL")
