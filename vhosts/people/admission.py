"""Admission of connections and channels: the counts for the limits of vhosts and users."""

from routelog.vhosts.arguments.limits import MAX_CHANNELS, MAX_CONNECTIONS, reached
from routelog.vhosts.errors import (
    ConnectionLimitReached,
    UserChannelLimitReached,
    UserConnectionLimitReached,
)
from routelog.vhosts.people.shared_counts import CountOf, SharedCounts
from routelog.vhosts.people.user_directory import UserDirectory
from routelog.vhosts.vhost.vhost import VirtualHost
from routelog.vhosts.vhost.vhost_directory import VhostDirectory

_OF_VHOST, _OF_USER = CountOf.VHOST_CONNECTIONS, CountOf.USER_CONNECTIONS
_CHANNELS = CountOf.USER_CHANNELS


class Admission:
    """Counts open connections and channels, and how often they came and went.

    Every `admit` is paired with a `left`, every `open_channel` with a `channel_closed`.

    Args:
        counts: of this node and others.
    """

    def __init__(
        self, vhosts: VhostDirectory, users: UserDirectory, counts: SharedCounts | None = None
    ) -> None:
        self._vhosts = vhosts
        self._users = users
        self._churn = vhosts.counters.churn
        self._counts = counts or SharedCounts()

    def admit(self, user: str, name: str) -> VirtualHost:
        """Let a connection of a user into a virtual host, and count it.

        Raises:
            VhostNotFound: there is no such vhost.
            VhostAccessRefused: the user has no permissions there.
            ConnectionLimitReached, UserConnectionLimitReached: the limit is reached.
        """
        vhost, counts = self._vhosts.get(name), self._counts
        self._users.permissions.authorize_vhost(user, name)
        limit = reached(vhost.limits, MAX_CONNECTIONS, counts.all(_OF_VHOST, name))
        if limit is not None:
            raise ConnectionLimitReached(name, user, limit)
        limit = reached(self._users.limits(user), MAX_CONNECTIONS, counts.all(_OF_USER, user))
        if limit is not None:
            raise UserConnectionLimitReached(user, limit)
        counts.add(_OF_VHOST, name, 1)
        counts.add(_OF_USER, user, 1)
        self._churn.connection_created += 1
        return vhost

    def left(self, user: str, vhost: str) -> None:
        """An admitted connection was closed."""
        self._counts.add(_OF_VHOST, vhost, -1)
        self._counts.add(_OF_USER, user, -1)
        self._churn.connection_closed += 1

    def open_channel(self, user: str) -> None:
        """Count a channel of a user.

        Raises:
            UserChannelLimitReached: the limit is reached.
        """
        channels = self._counts.all(_CHANNELS, user)
        limit = reached(self._users.limits(user), MAX_CHANNELS, channels)
        if limit is not None:
            raise UserChannelLimitReached(user, limit)
        self._counts.add(_CHANNELS, user, 1)
        self._churn.channel_created += 1

    def channel_closed(self, user: str) -> None:
        """A counted channel was closed."""
        self._counts.add(_CHANNELS, user, -1)
        self._churn.channel_closed += 1
