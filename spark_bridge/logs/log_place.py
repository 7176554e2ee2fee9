"""Where logs are: a data directory, a broker's HTTP service, remote storage, or that and one of the others."""

from dataclasses import dataclass
from pathlib import Path

from routelog.spark_bridge.logs.http_endpoint import HttpEndpoint
from routelog.spark_bridge.logs.http_logs import HttpLogs
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.log_store import LogStore, Ticket
from routelog.spark_bridge.logs.object_logs import ObjectLogs
from routelog.spark_bridge.logs.tiered_logs import BrokerLogs, TieredLogs

NO_TICKET: Ticket = {}


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Says where, and travels to executors; at least one of the three is given.

    Attributes:
        path: the broker's data directory; None: its part of the logs is elsewhere.
        endpoint: the broker's HTTP log service; None: its part of the logs is elsewhere.
        remote: address of the remote storage that has the older part; empty: there is none.
    """

    path: Path | None = None
    endpoint: HttpEndpoint | None = None
    remote: str = ""

    def open(self, ticket: Ticket = NO_TICKET) -> LogStore:
        """The logs there.

        Args:
            ticket: in a task, what the driver's store gave for it.

        Raises:
            BadOption: they are not there, as seen from this host.
        """
        broker = self._broker(ticket)
        if not self.remote:
            assert broker is not None
            return broker
        remote = ObjectLogs(self.remote)
        return remote if broker is None else TieredLogs(remote, broker)

    def _broker(self, ticket: Ticket) -> BrokerLogs | None:
        if self.endpoint is not None:
            return HttpLogs(self.endpoint, ticket)
        return None if self.path is None else LogDirectory(self.path)
