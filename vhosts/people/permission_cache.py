"""A cache of one connection's permissions, so that a publish needs no regular expression."""

from routelog.vhosts.arguments.pattern import MatchBudget
from routelog.vhosts.people.permission_book import PermissionBook, ResourceKind
from routelog.vhosts.stored.permission import Verb

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
