"""Warnings at the start of users whose password is the built-in one, which everybody knows."""

import logging

from routelog.vhosts import (
    DEFAULT_PASSWORD,
    AuthenticationBusy,
    LoopbackRule,
    PasswordVerifier,
    UserDirectory,
)

USERS_MAX = 100  # that are looked at, those with tags first: each takes a thread 30 ms

log = logging.getLogger(__name__)


async def warn_of_default_passwords(
    users: UserDirectory, passwords: PasswordVerifier, rule: LoopbackRule
) -> None:
    """Write a line of the log for each user, in the time that logins leave."""
    for user in sorted(users.users(), key=lambda user: not user.tags)[:USERS_MAX]:
        try:
            if not await passwords.matches(user.password_hash, DEFAULT_PASSWORD):
                continue
        except AuthenticationBusy:
            log.warning("passwords were not compared with the built-in one: too many logins wait")
            return
        is_local = rule.holds_for(user.name, DEFAULT_PASSWORD)
        where = "from this machine only" if is_local else "from everywhere (loopback_users)"
        log.warning("user '%s' has the built-in password, and logs in %s", user.name, where)
