"""The permissions of all users in all virtual hosts, and a cache of one connection's, so that a publish needs
no regular expression.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from routelog.vhosts.arguments.pattern import MatchBudget
from routelog.vhosts.errors import AccessRefused, VhostAccessRefused
from routelog.vhosts.publishing.internal_publisher import LOG_EXCHANGE
from routelog.vhosts.stored.permission import Permission, TopicPermission, TopicRule, Verb

NO_TOPICS: Mapping[str, TopicRule] = MappingProxyType({})
# Tags that allow binding to the log exchange: log lines name all users of the node, and their refusals.
LOG_TAGS = frozenset(("monitoring", "administrator"))
# The name of the default exchange in patterns and error texts
DEFAULT_EXCHANGE_NAME = "amq.default"


class ResourceKind(Enum):
    """The kind of a named resource."""

    EXCHANGE = "exchange"
    QUEUE = "queue"


class PermissionBook:
    """At most one `Permission` for each user and virtual host; no entry means no access.

    Reading from the log exchange needs a tag in addition to the permission.

    Topic permissions narrow what is allowed on a topic exchange; no entry means no restriction.

    Every user has a revision, which grows with each change that could revoke something. No revision is
    used twice, so an answer found at one revision holds as long as the revision, even if the user is
    deleted and created again. An unknown user has revision 0.
    """

    def __init__(self) -> None:
        self._by_user: dict[str, dict[str, Permission]] = {}
        self._topics: dict[str, dict[str, dict[str, TopicRule]]] = {}  # by user and vhost
        self._tags: dict[str, frozenset[str]] = {}
        self._revisions: dict[str, int] = {}
        self._latest_revision = 0

    def revision(self, user: str) -> int:
        """Return the user's revision."""
        return self._revisions.get(user, 0)

    def put_user(self, user: str, tags: Iterable[str]) -> None:
        """Set the tags of a new or changed user, who gets the next revision."""
        self._tags[user] = frozenset(tags)
        self._touch(user)

    def _touch(self, user: str) -> None:
        self._latest_revision += 1
        self._revisions[user] = self._latest_revision

    def put(self, user: str, vhost: str, permission: Permission) -> None:
        """Set the permission, in place of any other."""
        self._by_user.setdefault(user, {})[vhost] = permission
        self._touch(user)

    def remove(self, user: str, vhost: str) -> bool:
        """Take the permission away; False if there was none."""
        if self._by_user.get(user, {}).pop(vhost, None) is None:
            return False
        self._touch(user)
        return True

    def remove_user(self, user: str) -> None:
        """Forget the user, his revision and his permissions."""
        self._revisions.pop(user, None)
        self._tags.pop(user, None)
        self._topics.pop(user, None)
        self._by_user.pop(user, None)

    def of_user(self, user: str) -> dict[str, Permission]:
        """Return a copy of the user's permissions by virtual host."""
        return dict(self._by_user.get(user, {}))

    def of_vhost(self, vhost: str) -> dict[str, Permission]:
        """Return the permissions in a virtual host by user."""
        return {
            user: permissions[vhost]
            for user, permissions in self._by_user.items()
            if vhost in permissions
        }

    def put_topic(self, user: str, vhost: str, permission: TopicPermission) -> None:
        """Set the topic permission for an exchange, in place of any other.

        Raises:
            InvalidPermission: a pattern is too long or is no regular expression.
        """
        rule = TopicRule(permission, user, vhost)
        # Replaced, not changed: callers of `topics` hold the old one.
        of_user = self._topics.setdefault(user, {})
        of_user[vhost] = of_user.get(vhost, {}) | {permission.exchange: rule}
        self._touch(user)

    def remove_topic(self, user: str, vhost: str, exchange: str) -> None:
        """Remove the topic permission for an exchange, if there is one."""
        of_user = self._topics.get(user, {})
        rules = dict(of_user.pop(vhost, {}))
        rules.pop(exchange, None)
        if rules:
            of_user[vhost] = rules
        elif not of_user:
            self._topics.pop(user, None)
        self._touch(user)

    def topics(self, user: str, vhost: str) -> Mapping[str, TopicRule]:
        """The user's topic permissions by exchange; never changed, only replaced."""
        of_user = self._topics.get(user)
        return NO_TOPICS if of_user is None else of_user.get(vhost, NO_TOPICS)

    def topic_users(self) -> list[str]:
        """Users with topic permissions."""
        return list(self._topics)

    def topics_of_user(self, user: str) -> dict[str, Mapping[str, TopicRule]]:
        """Return the user's topic permissions by virtual host and exchange."""
        return dict(self._topics.get(user, {}))

    def authorize_vhost(self, user: str, vhost: str) -> None:
        """Let the user connect if he has a permission in the vhost, even one that allows nothing.

        Raises:
            VhostAccessRefused: he has none.
        """
        if self._find(user, vhost) is None:
            raise VhostAccessRefused(vhost, user)

    def authorize(self, user: str, vhost: str, kind: ResourceKind, name: str, verb: Verb) -> None:
        """Let the user do `verb` on the exchange or queue `name`.

        Raises:
            AccessRefused: his permission does not cover it.
        """
        name = _permission_name(kind, name)
        permission = self._find(user, vhost)
        is_of_log = kind is ResourceKind.EXCHANGE and name == LOG_EXCHANGE and verb is Verb.READ
        if is_of_log and LOG_TAGS.isdisjoint(self._tags.get(user, ())):
            permission = None
        if permission is None or not permission.allows(verb, name):
            raise AccessRefused(f"{verb.value} {_refusal(user, vhost, kind, name)}")

    def authorize_any(self, user: str, vhost: str, kind: ResourceKind, name: str) -> None:
        """Let the user see that `name` exists (a passive declare): any verb is enough.

        Raises:
            AccessRefused: he may neither configure nor write nor read it.
        """
        name = _permission_name(kind, name)
        permission = self._find(user, vhost)
        if permission is None or not any(permission.allows(verb, name) for verb in Verb):
            raise AccessRefused(_refusal(user, vhost, kind, name))

    def authorize_topic(
        self,
        user: str,
        vhost: str,
        exchange: str,
        verb: Verb,
        routing_key: str,
        budget: MatchBudget | None = None,
    ) -> None:
        """Let the user publish to (`write`) or bind with (`read`) a key of a topic exchange.

        Args:
            budget: for this key and others that come with it.

        Raises:
            AccessRefused: his topic permission does not cover the key.
        """
        rule = self.topics(user, vhost).get(exchange)
        if rule is not None and not rule.allows(verb, routing_key, budget):
            where = f"in exchange '{exchange}' in vhost '{vhost}' refused for user '{user}'"
            raise AccessRefused(f"{verb.value} access to topic '{routing_key}' {where}")

    def _find(self, user: str, vhost: str) -> Permission | None:
        permissions = self._by_user.get(user)
        return None if permissions is None else permissions.get(vhost)


def _permission_name(kind: ResourceKind, name: str) -> str:
    return DEFAULT_EXCHANGE_NAME if kind is ResourceKind.EXCHANGE and name == "" else name


def _refusal(user: str, vhost: str, kind: ResourceKind, name: str) -> str:
    return f"access to {kind.value} '{name}' in vhost '{vhost}' refused for user '{user}'"


ENTRIES_MAX = 128  # of one connection, about 10 KiB; RabbitMQ keeps 12 of a channel


class PermissionCache:
    """Asks the `PermissionBook` once for each name and verb, until something changes.

    A change of the user's permissions, password or tags takes effect with the next call.
    Refusals are not cached: they end a channel and are rare.

    Attributes:
        topics: the user's topic permissions by exchange, as of the last call.
    """

    __slots__ = ("_allowed", "_book", "_revision", "_user", "_vhost", "topics")

    def __init__(self, book: PermissionBook, user: str, vhost: str) -> None:
        self._book = book
        self._user = user
        self._vhost = vhost
        self._revision = book.revision(user)
        # Insertion order is the order of eviction. All entries were found at _revision.
        self._allowed: dict[tuple[ResourceKind, str, Verb], None] = {}
        self.topics = book.topics(user, vhost)

    def current(self) -> int:
        """The revision of the user's permissions: as long as it is the same, what was allowed is allowed."""
        revision = self._book.revision(self._user)
        if revision != self._revision:
            self._allowed.clear()
            self._revision = revision
            self.topics = self._book.topics(self._user, self._vhost)
        return revision

    def authorize(self, kind: ResourceKind, name: str, verb: Verb) -> None:
        """Let the connection's user do `verb` on the exchange or queue `name`.

        Raises:
            AccessRefused: his permission does not cover it.

        Cost:
            Two look-ups when the answer is cached.
        """
        self.current()
        question = (kind, name, verb)
        if question in self._allowed:
            return
        self._book.authorize(self._user, self._vhost, kind, name, verb)
        if len(self._allowed) >= ENTRIES_MAX:
            del self._allowed[next(iter(self._allowed))]
        self._allowed[question] = None

    def authorize_any(self, kind: ResourceKind, name: str) -> None:
        """Let the connection's user see that `name` exists.

        Raises:
            AccessRefused: he may neither configure nor write nor read it.
        """
        self._book.authorize_any(self._user, self._vhost, kind, name)

    def authorize_topic(
        self, exchange: str, verb: Verb, routing_key: str, budget: MatchBudget | None = None
    ) -> None:
        """Let the connection's user publish to, or bind with, a key of a topic exchange.

        Args:
            budget: for this key and others that come with it.

        Raises:
            AccessRefused: his topic permission does not cover the key.
        """
        ask = self._book.authorize_topic
        ask(self._user, self._vhost, exchange, verb, routing_key, budget)
