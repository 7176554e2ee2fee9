"""The definitions of a virtual host as front ends change them: here, or at the node that leads."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol

from routelog.exchanges import Binding, DestinationKind, Exchange
from routelog.log_backend import Progress, Reason, Records
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.messages.delivery import DeliverySource
from routelog.vhosts.messages.recipient import Recipient
from routelog.vhosts.queues.queue_handle import Answer, QueueCounts, QueueHandle

BindCheck = Callable[[Binding], None]  # raises if the client may not, as the definitions are
Check = Callable[[], None]  # raises if the client may not by now
Done = asyncio.Future[Any] | None  # None: it is durable, or need not be


class RemoteTransaction(Protocol):
    """A transaction that the node that leads carries out: nothing of it happens before it is sent.

    Attributes:
        progress: of the queues that it may publish to.
    """

    @property
    def progress(self) -> Progress:
        """See the class."""

    def publishes_to(self, recipient: Recipient) -> bool:
        """Whether batches for it may be added: it is a queue."""

    def publish(self, queue: Any, records: Records) -> None:
        """Add a batch for a queue; a deleted one gets nothing."""

    def settles(self, source: DeliverySource) -> bool:
        """Whether what a source handed out is settled by the node that leads."""

    def settle(
        self, source: DeliverySource, ranges: Sequence[tuple[int, int]], reason: Reason
    ) -> Iterator[None]:
        """Add settlements of such a source, at least one range, one by one."""

    def send(self, committed: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Have all of it carried out.

        Args:
            committed: called when it is durable.
            failed: called if it is refused, or nobody knows; what it settles is its queues' again.
        """


class VhostDefinitions(Protocol):
    """Declares and deletes for the clients of a node: see `VirtualHost`, which does so where it leads.

    What a method raises may come with its answer instead.
    """

    def provided(self, check: Check) -> "VhostDefinitions":
        """These, for a client who has to pass a check: at once, and again behind each wait for a leader.

        Behind other waits before a change (`wait_for_free`, `until_consumers_back`) the command begins anew.

        Raises:
            Exception: what the check raises.
        """

    def exchange_declared(self, name: str) -> Done:
        """See `VirtualHost`."""

    def declare_exchange(self, exchange: Exchange) -> Done:
        """See `VirtualHost`."""

    def delete_exchange(self, name: str, *, if_unused: bool) -> Done:
        """See `VirtualHost`."""

    def bind(self, binding: Binding, check: BindCheck) -> Done:
        """See `VirtualHost`."""

    def unbind(self, binding: Binding, check: BindCheck) -> Done:
        """See `VirtualHost`."""

    def wait_for_free(self, kind: DestinationKind, name: str) -> Awaitable[None] | None:
        """See `VirtualHost`."""

    def until_consumers_back(self) -> Done:
        """What a deletion of an unused queue waits for, before its client's permission is checked again."""

    def until_led(self) -> Done:
        """What a transaction waits for while no node is known that leads the queues of clients here."""

    def remote_transaction(self) -> RemoteTransaction | None:
        """A transaction with the queues of clients here; None: this node leads them."""

    def queue(self, name: str, connection: object) -> Answer[QueueHandle]:
        """See `VirtualHost`."""

    def check_access(self, name: str, connection: object) -> None:
        """See `VirtualHost`."""

    def queue_declared(self, name: str, connection: object) -> Answer[QueueCounts]:
        """See `VirtualHost`."""

    def declare_queue_of(
        self, properties: QueueProperties, connection: object, *, server_named: bool = False
    ) -> Answer[QueueCounts]:
        """See `VirtualHost`."""

    def delete_queue_of(
        self, name: str, connection: object, *, if_unused: bool, if_empty: bool
    ) -> Answer[int]:
        """See `VirtualHost`."""

    def delete_left(self, name: str) -> Done:
        """See `VirtualHost`."""

    def consumers_left(self, name: str) -> Done:
        """See `VirtualHost`."""

    def carried_out(self) -> Done:
        """See `VirtualHost`."""

    def connection_closed(self, connection: object) -> Done:
        """See `VirtualHost`."""
