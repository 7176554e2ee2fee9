"""What one connection has been allowed already, so that a publish costs no regular expression."""

from vhosts.permission import Verb
from vhosts.permission_book import PermissionBook, ResourceKind

ENTRIES_MAX = 128  # of one connection, about 10 KiB; RabbitMQ keeps 12 of a channel


class PermissionCache:
    """Asks the `PermissionBook` once for each name and verb, as long as nothing changes.

    A change of the user's permissions, password or tags takes effect at the next question.
    Refusals are not kept: they end a channel and are rare.
    """

    def __init__(self, book: PermissionBook, user: str, vhost: str) -> None:
        self._book = book
        self._user = user
        self._vhost = vhost
        self._revision = book.revision(user)
        # Insertion order is the order of eviction. All entries were found at _revision.
        self._allowed: dict[tuple[ResourceKind, str, Verb], None] = {}

    def authorize(self, kind: ResourceKind, name: str, verb: Verb) -> None:
        """Let the connection's user do `verb` on the exchange or queue `name`.

        Raises:
            AccessRefused: his permission does not cover it.

        Cost:
            Two look-ups once the answer is known.
        """
        revision = self._book.revision(self._user)
        if revision != self._revision:
            self._allowed.clear()
            self._revision = revision
        question = (kind, name, verb)
        if question in self._allowed:
            return
        self._book.authorize(self._user, self._vhost, kind, name, verb)
        self._keep(question)

    def _keep(self, question: tuple[ResourceKind, str, Verb]) -> None:
        if len(self._allowed) >= ENTRIES_MAX:
            del self._allowed[next(iter(self._allowed))]
        self._allowed[question] = None
