# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""What becomes of published messages: the queues that they go to, whom they answer, and what comes back.

A channel acts on a decision, a transaction keeps it until it commits, and the broker's own posts adapt it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import cython

from routelog.exchanges import BARE_MESSAGE, Message, Route, RoutingTable
from routelog.log_backend import Scheduler
from routelog.vhosts.publishing.fan_out import by_route
from routelog.vhosts.publishing.stateful_route import StatefulRoute

# Of one decision; what is left of a publish is for the next one.
KEYS_MAX = 2_048  # looked for in the cache of routes
ROUTES_MAX = 1_024  # different ones: 1 to 2 us each
ONE_BY_ONE_MAX = 64  # messages that remembering exchanges see, or that reply: some 30 us each

LONG_KEY = 64  # bytes: a longer one may take 2 ms, by 10,000 patterns made for that
LONG_ROUTE = 256  # queues: 0.03 ms; of 20,000, 2 ms
# Whole numbers of C.
NEW_KEYS_BETWEEN_LOOKS = cython.declare(cython.Py_ssize_t, 4)  # at the clock
KEYS_BETWEEN_LOOKS = cython.declare(cython.Py_ssize_t, 16)  # where each is looked at, however known


class Messages(Protocol):
    """Messages published to one exchange, known by their indexes.

    Attributes:
        shared_key: the only routing key of all of them; None: they may have others.
        single_keys: the only routing key of each of them; None: they may have several, see `keys`.
    """

    @property
    def shared_key(self) -> bytes | None:
        """See the class."""

    @property
    def single_keys(self) -> list[bytes] | None:
        """See the class."""

    def keys(self, index: int) -> Sequence[bytes]:
        """The routing key of a message, and those of its copies."""

    def properties(self, index: int) -> Message:
        """What exchanges see of a message beside its keys; asked for behind its keys."""


class Decision(NamedTuple):
    """What becomes of some messages of a publish, from `first` to before `end`; a duplicate is in no field.

    Attributes:
        deliver: their indexes by the queues that get them; two routes may have queues in common.
        returned: those that nobody gets.
        replies: indexes by the reply address that gets them.
        passage: what exchanges will remember of them; None: they came through none that remembers.
    """

    first: int
    end: int
    deliver: dict[Route, list[int]]
    returned: Sequence[int]
    replies: dict[bytes, list[int]]
    passage: StatefulRoute | None = None


@cython.final
@cython.cclass
class Router:
    """Decides for one publisher.

    Args:
        scheduler: whose running step ends when routes that are not known have taken long to find.
        passage: begins the way through exchanges that remember.
        is_reply: whether somebody waits at a reply address; None: what is published is no reply.
        names_max: queues of the routes of one decision, one that is in several counted in each; it has at
            least one route.
    """

    def __init__(
        self,
        routing: RoutingTable,
        scheduler: Scheduler,
        passage: Callable[[], StatefulRoute],
        is_reply: Callable[[bytes], bool] | None = None,
        names_max: int = 1 << 62,
    ) -> None:
        self._routing = routing
        self._is_over = scheduler.is_over
        self._passage = passage
        self._is_reply = is_reply
        self._names_max = names_max

    @cython.ccall
    @cython.locals(
        first=cython.Py_ssize_t, end=cython.Py_ssize_t, whole=cython.bint, found=list, chosen=dict
    )
    def decide(
        self, exchange: str, messages: Messages, first: int, end: int, whole: bool = False
    ) -> Decision:
        """What becomes of messages, of the first one at least, and of as many more as the turn bears.

        Args:
            first, end: the messages; there is one.
            whole: the turn's time does not matter.

        Raises:
            ExchangeNotFound: the exchange is not there.
            JournalFailed: a message is a duplicate, and the disk failed before.
        """
        routing = self._routing
        routes = routing.cached_routes(exchange)
        if routes is None and routing.remembers(exchange):
            return self._remembered(exchange, messages, first, end)
        key, keys = messages.shared_key, messages.single_keys
        if routes is not None and key is not None:
            return self._of_one_key(exchange, key, first, end)
        if routes is not None and keys is not None:
            found = self._by_keys(routes, exchange, keys, first, min(end, first + KEYS_MAX))
        else:
            found = self._by_messages(exchange, messages, first, end, whole)
        replies: dict[bytes, list[int]] = {}
        is_reply = self._is_reply
        if not exchange and is_reply is not None and (keys is None or not all(found)):
            replies = _replies(is_reply, messages, first, found)
        chosen = by_route(found, ROUTES_MAX, self._names_max, first)
        returned = chosen.pop((), ())
        if replies and returned:
            answered = set().union(*replies.values())
            returned = [at for at in returned if at not in answered]
        return Decision(first, first + len(found), chosen, returned, replies)

    def _of_one_key(self, exchange: str, key: bytes, first: int, end: int) -> Decision:
        route, indexes = self._routing.route(exchange, key), list(range(first, end))
        if route:
            return Decision(first, end, {route: indexes}, (), {})
        if not exchange and self._is_reply is not None and self._is_reply(key):
            return Decision(first, end, {}, (), {key: indexes})
        return Decision(first, end, {}, indexes, {})

    @cython.cfunc
    @cython.locals(
        routes=dict,
        keys=list,
        found=list,
        first=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
        new=cython.Py_ssize_t,
        is_long=cython.bint,
    )
    def _by_keys(
        self, routes: dict[bytes, Route], exchange: str, keys: list[bytes], first: int, end: int
    ) -> list[Route]:
        # Of all that are known, and of others while there is time.
        found: list[Route] = []
        new, is_long = 0, False
        for at in range(first, end):
            key = keys[at]
            route = routes.get(key)
            if route is None:
                to_look = new % NEW_KEYS_BETWEEN_LOOKS == 0 or is_long or len(key) > LONG_KEY
                if to_look and self._is_over() and new:
                    break
                new += 1
                route = self._routing.route(exchange, key)
                is_long = len(route) > LONG_ROUTE
            found.append(route)
        return found

    def _by_messages(
        self, exchange: str, messages: Messages, first: int, end: int, whole: bool
    ) -> list[Route]:
        looks = self._routing.needs_headers(exchange)
        found: list[Route] = []
        seen, is_long = BARE_MESSAGE, False
        for at in range(first, end):
            to_look = (at - first) % KEYS_BETWEEN_LOOKS == 0 or is_long
            if to_look and not whole and self._is_over() and found:
                break
            keys = messages.keys(at)
            if looks:
                seen = messages.properties(at)
            route = self._routing.route_all(exchange, keys, seen)
            found.append(route)
            is_long = len(route) > LONG_ROUTE or max(map(len, keys)) > LONG_KEY
        return found

    def _remembered(self, exchange: str, messages: Messages, first: int, end: int) -> Decision:
        passage = self._passage()
        deliver: dict[Route, list[int]] = {}
        end = min(end, first + ONE_BY_ONE_MAX)
        for at in range(first, end):
            keys = messages.keys(at)
            route = passage.route(at, exchange, keys, messages.properties(at))
            if route is None:
                end = at
                break
            deliver.setdefault(route, []).append(at)
        unrouted = [at for at in deliver.pop((), ()) if at not in passage.duplicates]
        return Decision(first, end, deliver, unrouted, {}, passage)


def _replies(
    is_reply: Callable[[bytes], bool], messages: Messages, first: int, found: list[Route]
) -> dict[bytes, list[int]]:
    # Of messages that go to no queue by their only key, or to any by several.
    replies: dict[bytes, list[int]] = {}
    single_keys = messages.single_keys
    for at, route in enumerate(found, first):
        if replies and at - first >= ONE_BY_ONE_MAX:
            del found[at - first :]
            break
        if single_keys is None:
            keys = dict.fromkeys(messages.keys(at))
        else:
            keys = {} if route else {single_keys[at]: None}
        for key in filter(is_reply, keys):
            replies.setdefault(key, []).append(at)
    return replies
