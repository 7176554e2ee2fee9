"""The place of logs: a data directory or a broker's HTTP service, remote storage, or both."""

from dataclasses import dataclass
from pathlib import Path

from routelog.spark_bridge.logs.http_endpoint import HttpEndpoint
from routelog.spark_bridge.logs.http_logs import HttpLogs
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.object_logs import ObjectLogs
from routelog.spark_bridge.logs.readable_logs import ReadableLogs, Ticket
from routelog.spark_bridge.logs.tiered_logs import BrokerLogs, TieredLogs

NO_TICKET: Ticket = {}


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The place of logs, which is sent to executors; at least one attribute is given.

    Attributes:
        path: the broker's data directory.
        endpoint: the broker's HTTP log service.
        remote: address of remote storage, which has the older part of the logs.
    """

    path: Path | None = None
    endpoint: HttpEndpoint | None = None
    remote: str = ""

    def open(self, ticket: Ticket = NO_TICKET) -> ReadableLogs:
        """Open the logs.

        Args:
            ticket: in a task, the `ReadableLogs.ticket` of the driver.

        Raises:
            BadOption: this host finds no logs there.
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
