"""Admission of connections and channels: the counts for the limits of vhosts and users."""

from collections import Counter

from routelog.vhosts.arguments.limits import MAX_CHANNELS, MAX_CONNECTIONS, reached
from routelog.vhosts.errors import (
    ConnectionLimitReached,
    UserChannelLimitReached,
    UserConnectionLimitReached,
)
from routelog.vhosts.people.user_directory import UserDirectory
from routelog.vhosts.vhost.vhost import VirtualHost
from routelog.vhosts.vhost.vhost_directory import VhostDirectory


class Admission:
    """Counts open connections and channels, and how often they came and went.

    Every `admit` is paired with a `left`, every `open_channel` with a `channel_closed`.
    """

    def __init__(self, vhosts: VhostDirectory, users: UserDirectory) -> None:
        self._vhosts = vhosts
        self._users = users
        self._churn = vhosts.counters.churn
        self._of_vhost: Counter[str] = Counter()
        self._of_user: Counter[str] = Counter()
        self._channels: Counter[str] = Counter()

    def admit(self, user: str, name: str) -> VirtualHost:
        """Let a connection of a user into a virtual host, and count it.

        Raises:
            VhostNotFound: there is no such vhost.
            VhostAccessRefused: the user has no permissions there.
            ConnectionLimitReached, UserConnectionLimitReached: the limit is reached.
        """
        vhost = self._vhosts.get(name)
        self._users.permissions.authorize_vhost(user, name)
        limit = reached(vhost.limits, MAX_CONNECTIONS, self._of_vhost[name])
        if limit is not None:
            raise ConnectionLimitReached(name, user, limit)
        limit = reached(self._users.limits(user), MAX_CONNECTIONS, self._of_user[user])
        if limit is not None:
            raise UserConnectionLimitReached(user, limit)
        self._of_vhost[name] += 1
        self._of_user[user] += 1
        self._churn.connection_created += 1
        return vhost

    def left(self, user: str, vhost: str) -> None:
        """An admitted connection was closed."""
        _decrease(self._of_vhost, vhost)
        _decrease(self._of_user, user)
        self._churn.connection_closed += 1

    def open_channel(self, user: str) -> None:
        """Count a channel of a user.

        Raises:
            UserChannelLimitReached: the limit is reached.
        """
        limit = reached(self._users.limits(user), MAX_CHANNELS, self._channels[user])
        if limit is not None:
            raise UserChannelLimitReached(user, limit)
        self._channels[user] += 1
        self._churn.channel_created += 1

    def channel_closed(self, user: str) -> None:
        """A counted channel was closed."""
        _decrease(self._channels, user)
        self._churn.channel_closed += 1


def _decrease(counts: Counter[str], name: str) -> None:
    counts[name] -= 1
    if counts[name] <= 0:
        del counts[name]  # no entries for users and vhosts without connections
