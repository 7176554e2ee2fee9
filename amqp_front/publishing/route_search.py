# cython: annotation_typing=False
"""The search for the routes of a run's messages: of as many as there is time for in a turn of the loop."""

import cython

from routelog.amqp_front.wire.command import PublishRun
from routelog.amqp_front.wire.properties import Properties
from routelog.exchanges import BARE_MESSAGE, Route, RoutingTable
from routelog.vhosts.posting.appending import Appending

TURN_KEYS_MAX = 2_048  # of a run with several keys, in one turn
LONG_KEY = 64  # bytes: a longer one may take 2 ms, by 10,000 patterns made for that
LONG_ROUTE = 256  # queues: 0.03 ms; of 20,000, 2 ms
# Whole numbers of C.
NEW_KEYS_BETWEEN_LOOKS = cython.declare(cython.Py_ssize_t, 4)  # at the clock
KEYS_BETWEEN_LOOKS = cython.declare(cython.Py_ssize_t, 16)  # where each is looked at, however known


@cython.final
@cython.cclass
class RouteSearch:
    """Finds routes of the first messages of a run, at least of one.

    Args:
        turn: whose time it takes.
    """

    def __init__(self, routing: RoutingTable, turn: Appending) -> None:
        self._routing = routing
        self._turn = turn

    @cython.ccall
    @cython.locals(routes=dict, keys=list, found=list, new=cython.Py_ssize_t, is_long=cython.bint)
    def by_keys(self, routes: dict[bytes, Route], exchange: str, keys: list[bytes]) -> list[Route]:
        """The routes of keys: of all that are known, and of others while there is time.

        Args:
            routes: those of the exchange that are known.

        Raises:
            ExchangeNotFound: the exchange is not there.
        """
        found: list[Route] = []
        new, is_long = 0, False
        for key in keys:
            route = routes.get(key)
            if route is None:
                to_look = new % NEW_KEYS_BETWEEN_LOOKS == 0 or is_long or len(key) > LONG_KEY
                if to_look and self._turn.is_over() and new:
                    break
                new += 1
                route = self._routing.route(exchange, key)
                is_long = len(route) > LONG_ROUTE
            found.append(route)
        return found

    def by_headers(self, run: PublishRun, exchange: str) -> list[Route]:
        """The routes of messages to an exchange where keys alone do not decide.

        Raises:
            ExchangeNotFound: the exchange is not there.
        """
        looks = self._routing.needs_headers(exchange)
        found: list[Route] = []
        message, is_long = BARE_MESSAGE, False
        for at, key in enumerate(run.keys()):
            to_look = at % KEYS_BETWEEN_LOOKS == 0 or is_long or len(key) > LONG_KEY
            if to_look and self._turn.is_over() and at:
                break
            if looks:
                message = Properties(run.properties(at)).message()
            route = self._routing.route(exchange, key, message)
            found.append(route)
            is_long = len(route) > LONG_ROUTE
        return found
