"""A name that another site lets lead here is refused; the node's own names, and addresses, are not."""

import pytest

from routelog.management.calls.failures import Refused
from routelog.management.calls.host_names import HostNames

NAMES = HostNames(["mq.example.com", "*.svc.cluster.local", "Node-1.Example.COM"])


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost",
        "localhost:15672",
        "rabbitmq:15672",
        "127.0.0.1:15672",
        "192.0.2.7",
        "[::1]:15672",
        "[fe80::1]",
        "mq.example.com",
        "MQ.example.com:15672",
        "mq.example.com.",
        "node-1.example.com:80",
        "routelog.default.svc.cluster.local:15672",
    ],
)
def test_names_of_the_node_and_addresses_are_taken(host: str) -> None:
    NAMES.check(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:15672",
        "127.0.0.1.evil.example",
        "mq.example.com.evil.example",
        "evilmq.example.com",
        "svc.cluster.local.evil.example",
        "localhost.evil.example:15672",
        "1.2.3.4.5",
        "evil.example:port",
        "[evil.example",
        "mq.example.com@evil.example",
        "evil.example/",
        "/evil.example",
        ":15672",
    ],
)
def test_any_other_name_is_refused(host: str) -> None:
    with pytest.raises(Refused, match=r"none of this node's names \(management_names\)") as refused:
        NAMES.check(host)
    assert (refused.value.status, refused.value.error) == (403, "forbidden")
    HostNames(["*"]).check(host)
