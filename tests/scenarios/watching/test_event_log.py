"""The log answers who did what, from where, and why it was refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pika
import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("needs its log")


@pytest.fixture
def broker(fresh_broker) -> BrokerProcess:
    return fresh_broker(ROUTELOG_LOG_FORMAT="json")


def events(broker: BrokerProcess) -> list[dict[str, Any]]:
    lines = [line for line in broker.log_text().splitlines() if line.startswith("{")]
    return [event for event in map(json.loads, lines) if "event" in event]


def wanted(broker: BrokerProcess, event: str, **fields: Any) -> dict[str, Any]:
    """The one event that has these fields; it may be on its way still."""

    def found() -> list[dict[str, Any]]:
        asked = {"event": event, **fields}
        return [each for each in events(broker) if asked.items() <= each.items()]

    wait_until(lambda: bool(found()))
    (each,) = found()
    return each


def test_a_connection_is_told_from_its_opening_to_its_end(broker: BrokerProcess) -> None:
    said = {"connection_name": "billing"}
    clients = Clients(broker.url)
    connection = clients.connect(client_properties=said)
    opened = wanted(broker, "connection.created", user="guest", vhost="/", client="billing")
    assert opened["level"] == "info"
    assert opened["library"].startswith("Pika")
    connection.close(reply_text="done for today")
    closed = wanted(broker, "connection.closed", name=opened["name"], user="guest", vhost="/")
    assert closed["reason"] == "closed by the client: done for today"
    other = clients.connect(client_properties={"connection_name": "gone"})
    gone = wanted(broker, "connection.created", client="gone")
    other._impl._transport._sock.close()
    ends = wanted(broker, "connection.closed", name=gone["name"])
    assert "without connection.close" in ends["reason"]


def test_a_refused_login_names_the_user_and_the_cause(broker: BrokerProcess) -> None:
    clients = Clients(broker.url)
    for user, cause in (("guest", "wrong password"), ("nobody", "no such user")):
        with pytest.raises(pika.exceptions.AMQPError):
            clients.connect(credentials=pika.PlainCredentials(user, "hunter2"))
        refused = wanted(broker, "user.authentication.failure", name=user, cause=cause)
        assert refused["level"] == "warning"
        assert refused["address"].startswith("127.0.0.1:")
        status, _, _ = ManagementDoor(broker, (user, "hunter2")).raw("GET", "/whoami")
        assert status == 401
        wanted(broker, "http.refused", name=user, cause=cause, status=401, path="/api/whoami")
    assert "hunter2" not in broker.log_text()
    assert not [each for each in events(broker) if each["event"] == "connection.refused"]


def test_errors_are_told_with_code_and_method(broker: BrokerProcess) -> None:
    clients = Clients(broker.url)
    clients.channel().queue_declare("orders", durable=True)
    with pytest.raises(pika.exceptions.ChannelClosed):
        clients.channel().queue_declare("orders", durable=False)
    refused = wanted(broker, "channel.refused", code=406, method="Queue.Declare", user="guest")
    assert "orders" in refused["reason"]
    assert (refused["vhost"], refused["channel"], refused["level"]) == ("/", 1, "warning")
    with pytest.raises(pika.exceptions.AMQPError):
        clients.connect(virtual_host="nowhere")
    wanted(broker, "connection.refused", code=530, user="guest", method="Connection.Open")


def test_changes_name_who_made_them(broker: BrokerProcess) -> None:
    clients, door = Clients(broker.url), ManagementDoor(broker)
    channel = clients.channel()
    channel.queue_declare("orders", durable=True)
    channel.exchange_declare("x", durable=True)
    channel.queue_delete("orders")
    for event, name in (
        ("queue.created", "orders"),
        ("exchange.created", "x"),
        ("queue.deleted", "orders"),
    ):
        told = wanted(broker, event, name=name, by="guest", via="AMQP 0-9-1")
        assert told["from"].startswith("127.0.0.1:")
    ann = ManagementDoor(broker, door.add_user("ann", "administrator"))
    ann.do("PUT", "users", "bob", body={"password": "b", "tags": "administrator"})
    ann.do("PUT", "vhosts", "v")
    ann.do("PUT", "queues", "v", "kept", body={"durable": True})
    ann.do("DELETE", "queues", "v", "kept")
    definition = {"pattern": "^a", "definition": {"max-length": 1}}
    ann.do("PUT", "policies", "v", "p", body=definition)
    ann.do("DELETE", "vhosts", "v")
    by = {"by": "ann", "via": "HTTP"}
    wanted(broker, "user.created", name="bob", **by)
    wanted(broker, "user.tags.set", name="bob", tags="['administrator']", **by)
    wanted(broker, "vhost.created", name="v", **by)
    wanted(broker, "permission.created", user="ann", vhost="v", **by)
    wanted(broker, "queue.created", name="kept", vhost="v", **by)
    wanted(broker, "queue.deleted", name="kept", vhost="v", **by)
    wanted(broker, "policy.set", name="p", vhost="v", **by)
    wanted(broker, "vhost.deleted", name="v", **by)
    # What no event is made of is told as the request that it was, and nothing twice.
    ann.do("PUT", "user-limits", "bob", "max-channels", body={"value": 3})
    path = "/api/user-limits/bob/max-channels"
    changed = wanted(broker, "http.changed", method="PUT", path=path, **by)
    assert changed["from"].startswith("127.0.0.1:")
    assert [each["path"] for each in events(broker) if each["event"] == "http.changed"] == [path]


def test_what_ends_by_itself_is_nobodys_doing(broker: BrokerProcess) -> None:
    channel = Clients(broker.url).channel()
    channel.queue_declare("short", durable=True, arguments={"x-expires": 100})
    told = wanted(broker, "queue.deleted", name="short")
    assert told["via"] == "expiry"
    assert "by" not in told


def test_a_request_that_is_refused_names_caller_path_and_cause(broker: BrokerProcess) -> None:
    door = ManagementDoor(broker)
    mon = ManagementDoor(broker, door.add_user("mon", "monitoring"))
    assert mon.raw("PUT", "/users/eve?password=hunter2", b"{}")[0] == 401
    refused = wanted(broker, "http.refused", user="mon", method="PUT", path="/api/users/eve")
    assert (refused["status"], refused["cause"]) == (401, "Not administrator user")
    assert door.raw("PUT", "/queues/%2F/q", b"{}", Origin="http://evil.example")[0] == 403
    wanted(broker, "http.refused", status=403, cause="a request from another site")
    assert ManagementDoor(broker, None).raw("GET", "/users")[0] == 401
    wanted(broker, "http.refused", cause="no credentials", path="/api/users")
    assert "hunter2" not in broker.log_text()


def test_a_loop_of_errors_does_not_fill_the_log(broker: BrokerProcess) -> None:
    clients = Clients(broker.url)
    connection = clients.connect()
    for _ in range(500):
        with pytest.raises(pika.exceptions.ChannelClosed):
            connection.channel().queue_declare("none", passive=True)
    with pytest.raises(pika.exceptions.ChannelClosed):
        connection.channel().queue_declare("none", passive=True)
    assert broker.terminate() == 0
    refused = [each for each in events(broker) if each["event"] == "channel.refused"]
    assert len(refused) < 100
    assert refused[-1]["left_out"] + len(refused) - 1 == 501


def test_the_start_is_told(fresh_broker) -> None:
    broker = fresh_broker()
    channel = Clients(broker.url).channel()
    channel.queue_declare("kept", durable=True)
    broker.restart()
    said = broker.log_text()
    assert re.search(r"RouteLog \S+ starts: configuration file \S+, data directory \S+", said)
    assert str(broker.data_dir) in said
    assert f"listening for AMQP on 127.0.0.1:{broker.port}" in said
    assert "listening for HTTP on 127.0.0.1:" in said
    assert "recovered: 1 virtual hosts, 1 queues, 1 users, " in said
