"""A broker's HTTP log service as the source of Spark queries sees it."""

from __future__ import annotations

from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.waiting import wait_until

from routelog.spark_bridge.logs.http_endpoint import HttpEndpoint, parse_endpoint
from routelog.spark_bridge.logs.http_logs import HttpLogs
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange, ReadableLogs


def service_url(broker: BrokerProcess, user: str = "guest", password: str = "guest") -> str:
    """What the option `url` says."""
    return f"http://{user}:{password}@127.0.0.1:{ManagementDoor(broker).address.port}"


def endpoint(url: str, retries: int = 3, **tls: str) -> HttpEndpoint:
    return parse_endpoint(url, tls, 5.0, retries)


def http_logs(broker: BrokerProcess, user: str = "guest", password: str = "guest") -> HttpLogs:
    return HttpLogs(endpoint(service_url(broker, user, password)), {})


def contents(store: ReadableLogs, wanted: OffsetRange, **lost: bool) -> list[tuple[int, bytes]]:
    """The offset and the body of each record of a range."""
    return [
        (offset, batch.records.body(offset - batch.base_offset))
        for batch in store.read(wanted, **lost)
        for offset in range(batch.base_offset, batch.end_offset)
        if wanted.start <= offset < wanted.end
    ]


def wait_until_stored(store: ReadableLogs, partition: LogPartition, count: int) -> None:
    """Wait until a log reaches an offset."""
    wait_until(lambda: store.extents(partition)[-1].end >= count)
