"""Partner of management/calls/log_tokens.py."""

from __future__ import annotations

from typing import cast

import pytest

from routelog.management.calls.log_tokens import LogTokens
from routelog.vhosts import User, UserDirectory


class HandClock:
    time = 1_700_000_000_000_000

    def now(self) -> int:
        return self.time

    def monotonic(self) -> float:
        return self.time / 1_000_000


class Users:
    def __init__(self, *users: User) -> None:
        self.known = {user.name: user for user in users}

    def find(self, name: str) -> User | None:
        return self.known.get(name)


ANNA = User("anna", "hash-of-her-password", ())


def found(tokens: LogTokens, token: str, *users: User) -> tuple[User, str] | None:
    return tokens.verified(token, cast(UserDirectory, Users(*users)))


def test_a_token_names_its_user_and_vhost_until_its_end() -> None:
    clock = HandClock()
    tokens = LogTokens(b"k" * 32, clock)
    token = tokens.issue(ANNA, "/", 60)
    assert found(tokens, token, ANNA) == (ANNA, "/")
    clock.time += 59_999_999
    assert found(tokens, token, ANNA) == (ANNA, "/")
    clock.time += 1
    assert found(tokens, token, ANNA) is None


def test_a_token_ends_with_the_password_the_user_and_the_key() -> None:
    tokens = LogTokens(b"k" * 32, HandClock())
    token = tokens.issue(ANNA, "/", 60)
    assert found(tokens, token, User("anna", "another", ())) is None
    assert found(tokens, token) is None
    assert found(LogTokens(b"l" * 32, HandClock()), token, ANNA) is None


@pytest.mark.parametrize("text", ["log.", "log.a", "log.a.b", "log..", "log.W10.x", "log.ä.b", "x"])
def test_what_is_no_token_names_nobody(text: str) -> None:
    assert found(LogTokens(b"k" * 32, HandClock()), text, ANNA) is None


def test_no_changed_byte_is_let_through() -> None:
    tokens = LogTokens(b"k" * 32, HandClock())
    token = tokens.issue(ANNA, "/", 60)
    for at in range(4, len(token) - 1):  # the last character has bits that mean nothing
        other = "A" if token[at] != "A" else "B"
        assert found(tokens, token[:at] + other + token[at + 1 :], ANNA) is None, at
