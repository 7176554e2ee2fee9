"""Logging in: who is it, is that proved, and may the user come from there?"""

from typing import Protocol

from routelog.broker.identity.client_certificate import Certificate, login_name
from routelog.broker.node.configuration import BrokerConfig
from routelog.vhosts import (
    AuthenticationRefused,
    EventFeed,
    PasswordVerifier,
    TooManyFailedLogins,
    User,
    UserDirectory,
)


class LoginClient(Protocol):
    """What is known of a client before it logs in; see `ClientSocket`."""

    name: str
    peer: str | None
    certificate: Certificate | None


class Logins:
    """Logins of the clients of one protocol.

    Whatever is wrong, the client is told the same; the cause is for the log alone, as it says which users
    there are.

    Args:
        protocol: as events name it.
    """

    def __init__(
        self,
        config: BrokerConfig,
        users: UserDirectory,
        passwords: PasswordVerifier,
        events: EventFeed,
        protocol: str,
    ) -> None:
        self._rule = config.loopback_rule
        self._login_from = config.tls_login_from
        self._users = users
        self._passwords = passwords
        self._events = events
        self._protocol = protocol

    def is_certified(self, client: LoginClient, mechanism: str) -> bool:
        """Whether a user is called as the client's certificate says, and may log in by that mechanism."""
        if client.certificate is None:
            return False
        name = login_name(client.certificate, self._login_from)
        if name is not None and self._users.find(name) is not None:
            return True
        cause = f"{mechanism} is not offered"
        self._events.note("certificate.unknown", name=name, address=client.name, cause=cause)
        return False

    async def by_certificate(self, client: LoginClient, mechanism: str) -> User:
        """The user whom the client's certificate names.

        Raises:
            AuthenticationRefused: there is none, or not from there.
        """
        assert client.certificate is not None
        name = login_name(client.certificate, self._login_from)
        user = self._users.find(name) if name is not None else None
        cause = "no user is called as the certificate says" if user is None else ""
        return self._admitted(client, mechanism, user, name or "", cause)

    def remembered(self, client: LoginClient, name: str, password: bytes) -> User | None:
        """The user whom a name and a password prove at once; None: ask `by_password`."""
        user = self._users.find(name)
        if user is None or not self._passwords.remembers(user, password):
            return None
        if not self._rule.allows(name, client.peer, password):
            return None
        self._events.tell("user.authentication.success", **self._said(client, name))
        return user

    async def by_password(
        self, client: LoginClient, mechanism: str, name: str, password: bytes
    ) -> User:
        """The user whom a name and a password prove.

        Raises:
            AuthenticationRefused: they prove none, or not from there.
            AuthenticationBusy: too many others are logging in.
            TooManyFailedLogins: of this user, or from this address.
        """
        try:
            user, cause = await proved_user(
                self._users, self._passwords, name, password, client.peer
            )
        except TooManyFailedLogins:
            self.refused(client, mechanism, name, "too many failed logins")
            raise
        return self._admitted(client, mechanism, user, name, cause, password)

    def _admitted(
        self,
        client: LoginClient,
        mechanism: str,
        user: User | None,
        name: str,
        cause: str,
        password: bytes = b"",
    ) -> User:
        if user is not None and not self._rule.allows(user.name, client.peer, password):
            cause = "the user, or the built-in password, is for this machine only (loopback_users)"
        if user is None or cause:
            self.refused(client, mechanism, name, cause)
            raise AuthenticationRefused
        self._events.tell("user.authentication.success", **self._said(client, user.name))
        return user

    def refused(self, client: LoginClient, mechanism: str, name: str, cause: str) -> None:
        """Tell that a login was refused."""
        said = self._said(client, name)
        self._events.publish("user.authentication.failure", **said)
        self._events.note(
            "user.authentication.failure",
            **said,
            address=client.name,
            mechanism=mechanism,
            cause=cause,
        )

    def _said(self, client: LoginClient, name: str) -> dict[str, object]:
        return {"name": name, "peer_host": client.peer or "", "protocol": self._protocol}


async def proved_user(
    users: UserDirectory, passwords: PasswordVerifier, name: str, password: bytes, peer: str | None
) -> tuple[User | None, str]:
    """The user whom a name and a password prove, or None and the cause, which is for the log alone.

    Raises:
        AuthenticationBusy: too many others are logging in.
        TooManyFailedLogins: of this user, or from this address.
    """
    user = users.find(name)
    verified = await passwords.verify(user, password, name=name, peer=peer)
    if user is None:
        return None, "no such user"
    # The user may have been changed or deleted while the password was verified.
    if not verified or users.find(name) != user:
        return None, "wrong password"
    return user, ""
