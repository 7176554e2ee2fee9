"""`routelog top`: one look at what a broker says."""

from unit.management.commands.asked_broker import Broker, Run


def told(broker: Broker) -> None:
    """What the broker answers."""
    rates = {"publish_details": {"rate": 1_234.5}}
    node = {"name": "n@h", "mem_used": 5 << 20, "disk_free": 7 << 20, "fd_used": 9}
    node |= {
        "mem_alarm": True,
        "disk_free_alarm": False,
        "files_alarm": False,
        "journal_alarm": False,
    }
    totals = {"messages_ready": 3_000, "messages_unacknowledged": 4}
    queue = {"name": "q\x1b[31m", "vhost": "/", "consumers": 2, "message_stats": rates, **totals}
    connection = {"name": "c", "user": "ann", "state": "running", "channels": 1}
    connection |= {"user_provided_name": None, "recv_oct_details": {"rate": 2_048.0}}
    broker.answers = {
        ("overview",): {
            "node": "n@h",
            "queue_totals": totals,
            "object_totals": {"queues": 1},
            "message_stats": rates,
        },
        ("nodes",): [{"name": "other"}, node | {"log_alarm": False}],
        ("queues",): {"items": [queue]},
        ("connections",): {"items": [connection]},
    }


def test_node_queues_and_connections_are_shown_once_in_a_pipe(run: Run, broker: Broker) -> None:
    told(broker)
    result = run("top", "--by", "publish", "--count", "7")
    assert result.exit_code == 0, result.output
    node, rates, counts, _, _, queue, _, _, connection = result.output.splitlines()
    assert " ".join(node.split()) == "n@h memory 5 MiB disk free 7 MiB files 9 alarms: memory"
    assert "ready 3,000  unacked 4  publish 1,234.5/s  confirm 0.0/s" in rates
    assert counts.split() == ["queues", "1"]
    assert queue.split() == ["q\\x1b[31m", "/", "3,000", "4", "2", "1,234.5", "0.0", "0.0"]
    assert connection.split() == ["c", "ann", "running", "1", "2.0", "0.0"]
    assert "page_size=7&sort=message_stats.publish_details.rate" in broker.queries[0]


def test_an_order_that_is_none_is_refused(run: Run, broker: Broker) -> None:
    result = run("top", "--by", "colour")
    assert result.exit_code == 2
