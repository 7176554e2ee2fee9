"""Exchanges that delay, deduplicate or remember, at a node that does not lead: their messages go to the leader.

Such an exchange stands in a route under its `held_name`. A message goes to it whole when the walk begins at it,
or at one from which messages may reach it; and when a walk leads to an exchange that holds the message. The
leader routes it from there on.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn

from routelog.exchanges import Message, Route, held_name, holding_exchange
from routelog.log_backend import Durability, Progress, Receipt, Records
from routelog.vhosts.errors import OutcomePending
from routelog.vhosts.messages.recipient import Recipient
from routelog.vhosts.publishing.appending import Appending
from routelog.vhosts.publishing.stateful_route import StatefulRoute
from routelog.vhosts.sessions.leader_link import LeaderLink


class RemoteExchange:
    """An exchange of the leader, as a `Recipient`.

    Attributes:
        name: stands for it in routes.
    """

    number = 0  # of no partition
    durability = Durability.DISK  # a CONFIRM says so of any batch that is what its queues promise
    deleted = is_behind = False
    may_refuse = True
    on_caught_up: Callable[[], None] | None = None

    def __init__(self, vhost: str, exchange: str, link: LeaderLink) -> None:
        self.vhost = vhost
        self.name = held_name(exchange)
        self._exchange = exchange
        self._link = link

    def __str__(self) -> str:
        return f"exchange '{self._exchange}' in vhost '{self.vhost}'"

    @property
    def progress(self) -> Progress:
        """See `Recipient`."""
        return self._link.session.progress

    def publish(self, records: Records, waited: bool) -> NoReturn:
        """See `Recipient`.

        Raises:
            OutcomePending: always; the leader says what no queue took.
        """
        session = self._link.session
        number = session.send_batch(self, records, waited)
        raise OutcomePending(number, session.outcome(number, records.count))

    def takes(self, count: int, size: int) -> bool:
        """See `Recipient`: the leader knows; see `publish`."""
        return True

    def transaction_ended(self, *, failed: bool) -> None:
        """See `Recipient`: transactions do not come here."""


class RemoteExchanges:
    """The exchanges of a vhost that messages were sent to, by name."""

    def __init__(self, vhost: str, link: LeaderLink) -> None:
        self._vhost = vhost
        self._link = link
        self._exchanges: dict[str, RemoteExchange] = {}

    def recipient(self, name: str) -> Recipient | None:
        """The recipient that a name in a route stands for; None: the name is a queue's."""
        exchange = holding_exchange(name)
        if exchange is None:
            return None
        known = self._exchanges.get(exchange)
        if known is None:
            known = self._exchanges[exchange] = RemoteExchange(self._vhost, exchange, self._link)
        return known

    def forget(self, exchange: str) -> None:
        """An exchange is deleted: one that is declared later has another subject in the session."""
        known = self._exchanges.pop(exchange, None)
        if known is not None:
            self._link.session.forget_queue(known)


class RemoteRoute(StatefulRoute):
    """See `StatefulRoute`: the leader knows what exchanges remember, so it routes the messages."""

    def route(self, place: int, exchange: str, keys: Sequence[bytes], message: Message) -> Route:
        """See `StatefulRoute`."""
        return (held_name(exchange),)

    def store(
        self,
        batches: Sequence[tuple[Records, Sequence[Recipient], Sequence[int]]],
        appending: Appending,
        asked: bool,
        records: Callable[[list[int]], Records],
    ) -> Receipt:
        """See `StatefulRoute`."""
        receipt: Receipt = appending.append(batches, True)
        return receipt
