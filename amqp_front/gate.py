"""The gate that publishers wait at while the disk is behind."""

from amqp_front.services import Held


class Gate:
    """Held connections read nothing until the gate opens.

    Attributes:
        closed: publishers should wait.
    """

    def __init__(self) -> None:
        self.closed = False
        self._held: set[Held] = set()

    def hold(self, connection: Held) -> None:
        """See `PublisherGate`."""
        self._held.add(connection)

    def forget(self, connection: Held) -> None:
        """See `PublisherGate`."""
        self._held.discard(connection)

    def set_closed(self, closed: bool) -> None:
        """Close or open the gate."""
        self.closed = closed
        if not closed:
            held, self._held = self._held, set()
            for connection in held:
                connection.let_go()
