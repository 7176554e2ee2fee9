"""A broker's HTTP log service as the source of Spark queries sees it."""

from __future__ import annotations

import time
from collections.abc import Callable

from broker_process import BrokerProcess
from management_door import ManagementDoor

from routelog.spark_bridge.logs.http_endpoint import HttpEndpoint, parse_endpoint
from routelog.spark_bridge.logs.http_logs import HttpLogs
from routelog.spark_bridge.logs.log_store import LogPartition, LogStore, OffsetRange

WAIT_SECONDS = 60.0


def service_url(broker: BrokerProcess, user: str = "guest", password: str = "guest") -> str:
    """What the option `url` says."""
    return f"http://{user}:{password}@127.0.0.1:{ManagementDoor(broker).address.port}"


def endpoint(url: str, retries: int = 3, **tls: str) -> HttpEndpoint:
    return parse_endpoint(url, tls, 5.0, retries)


def http_logs(broker: BrokerProcess, user: str = "guest", password: str = "guest") -> HttpLogs:
    return HttpLogs(endpoint(service_url(broker, user, password)), {})


def contents(store: LogStore, wanted: OffsetRange, **lost: bool) -> list[tuple[int, bytes]]:
    """Batches of a range by their base offset."""
    found = store.read(wanted, **lost)
    return [(batch.base_offset, bytes(batch.records.payload)) for batch in found]


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def wait_until_stored(store: LogStore, partition: LogPartition, count: int) -> None:
    """Wait until a log reaches an offset."""
    wait_until(lambda: store.extents(partition)[-1].end >= count)
