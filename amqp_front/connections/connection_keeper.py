"""Who has all connections."""

from typing import Any, Protocol


class ConnectionKeeper(Protocol):
    """Who has all connections; those told of are `Connection`s."""

    def opened(self, connection: Any) -> None:
        """It is in its vhost."""

    def closed(self, connection: Any) -> None:
        """It is gone."""
