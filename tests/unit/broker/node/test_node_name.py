"""What a node is called."""

import pytest

from routelog.broker.node.node_name import node_name


@pytest.mark.parametrize(
    ("wanted", "host", "name"),
    [
        ("routelog", "mq1", "routelog@mq1"),
        ("rabbit", "mq1.example.com", "rabbit@mq1"),
        ("rabbit@elsewhere.example.com", "mq1", "rabbit@elsewhere.example.com"),
    ],
)
def test_a_node_without_a_host_in_its_name_is_named_after_this_one(
    wanted: str, host: str, name: str
) -> None:
    assert node_name(wanted, host) == name
