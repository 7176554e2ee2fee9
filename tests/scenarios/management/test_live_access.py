"""Users, permissions, limits and policies changed over HTTP while pika is connected."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
)
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients, round_trip

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")


@pytest.fixture
def clients(world: BrokerProcess) -> Iterator[Clients]:
    opened = Clients(world.url)
    yield opened
    opened.close()


def connect(clients: Clients, user: str, vhost: str = "/") -> pika.BlockingConnection:
    return clients.connect(credentials=pika.PlainCredentials(user, user), virtual_host=vhost)


def permit(
    door: ManagementDoor, user: str, configure: str = "", write: str = "", read: str = ""
) -> None:
    body = {"configure": configure, "write": write, "read": read}
    door.do("PUT", "permissions", "/", user, body=body)


def refused(channel, act) -> tuple[int, str]:
    def acted() -> None:
        act()
        round_trip(channel)

    with pytest.raises(ChannelClosedByBroker) as closed:
        acted()
    return closed.value.reply_code, closed.value.reply_text


def test_a_changed_permission_counts_for_the_next_command_of_an_open_connection(
    door, clients, name
):
    door.add_user(name)
    connection = connect(clients, name)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(name)
    channel.basic_publish("", name, b"m")
    permit(door, name, configure=".*", write="^other", read=".*")
    code, text = refused(channel, lambda: channel.basic_publish("", name, b"m"))
    assert (code, "write access to exchange 'amq.default'" in text) == (403, True)
    channel = connection.channel()
    assert channel.basic_get(name)[2] == b"m"
    permit(door, name)
    assert refused(channel, lambda: channel.basic_get(name))[0] == 403
    channel = connection.channel()
    assert refused(channel, lambda: channel.queue_declare(name, passive=True))[0] == 403
    permit(door, name, write=".*")
    connection.channel().queue_declare(name, passive=True)
    door.do("DELETE", "permissions", "/", name)
    with pytest.raises(ProbableAccessDeniedError, match="530"):
        connect(clients, name)


def test_topic_permissions_hold_for_keys_copies_and_bindings(door, clients, name):
    door.add_user(name)
    rule = {"exchange": "amq.topic", "write": "^{username}\\.", "read": "^public"}
    door.do("PUT", "topic-permissions", "/", name, body=rule)
    connection = connect(clients, name)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, "amq.topic", "public.#")
    channel.basic_publish("amq.topic", f"{name}.news", b"m")
    code, text = refused(channel, lambda: channel.basic_publish("amq.topic", "other.news", b"m"))
    assert (code, "topic 'other.news' in exchange 'amq.topic'" in text) == (403, True)
    channel = connection.channel()
    code, text = refused(channel, lambda: channel.basic_publish("amq.topic", b"\xff", b"m"))
    assert (code, "topic '?' in exchange 'amq.topic'" in text) == (403, True)
    channel = connection.channel()
    copied = pika.BasicProperties(headers={"BCC": ["other.news"]})
    assert (
        refused(channel, lambda: channel.basic_publish("amq.topic", f"{name}.x", b"m", copied))[0]
        == 403
    )
    channel = connection.channel()
    assert refused(channel, lambda: channel.queue_bind(name, "amq.topic", "#"))[0] == 403
    door.do("DELETE", "topic-permissions", "/", name)
    channel = connection.channel()
    channel.queue_bind(name, "amq.topic", "#")
    channel.basic_publish("amq.topic", "other.news", b"m")
    round_trip(channel)


def test_topic_permissions_hold_for_a_delayed_exchange_that_routes_by_topic(door, clients, name):
    door.add_user(name)
    rule = {"exchange": name, "write": "^mine$", "read": "^public"}
    door.do("PUT", "topic-permissions", "/", name, body=rule)
    connection = connect(clients, name)
    channel = connection.channel()
    kind = {"x-delayed-type": "topic"}
    channel.exchange_declare(name, "x-delayed-message", arguments=kind, auto_delete=True)
    channel.confirm_delivery()
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, name, "public.#")
    channel.basic_publish(name, "mine", b"m")
    later = pika.BasicProperties(headers={"x-delay": 1_000})
    for key, properties in product(("other", "mine\n"), (None, later)):
        publish = partial(channel.basic_publish, name, key, b"m", properties)
        code, text = refused(channel, publish)
        assert (code, "access to topic" in text) == (403, True)
        channel = connection.channel()
    assert refused(channel, lambda: channel.queue_bind(name, name, "#"))[0] == 403


def test_a_new_password_counts_at_once_and_a_deleted_user_is_thrown_out(door, clients, name):
    door.add_user(name)
    connection = connect(clients, name)
    door.do("PUT", "users", name, body={"password": "new", "tags": ""})
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(clients, name)
    door.do("DELETE", "users", name)
    with pytest.raises(ConnectionClosedByBroker) as closed:
        connection.process_data_events(5)
    assert closed.value.reply_code == 320
    assert f"user '{name}' was deleted" in closed.value.reply_text
    assert door.ask("DELETE", "users", name)[0] == 404


def test_hashes_of_rabbitmq_log_in(door, clients, name):
    stored = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"  # of "test12"
    door.do("PUT", "users", name, body={"password_hash": stored, "tags": "management"})
    permit(door, name)
    clients.connect(credentials=pika.PlainCredentials(name, "test12"))
    assert door.get("users", name)["password_hash"] == stored
    bad = {"password_hash": "x", "tags": ""}
    assert door.ask("PUT", "users", name, body=bad)[0] == 400


def test_a_vhost_comes_and_goes_with_its_connections(door, clients, name):
    said = {"description": "d", "tags": "a,b", "default_queue_type": "quorum"}
    assert door.ask("PUT", "vhosts", name, body=said)[0] == 201
    assert door.ask("PUT", "vhosts", name, body={})[0] == 204
    assert door.get("vhosts", name)["tags"] == ["a", "b"]
    door.add_user(name, vhost=name)
    connection = connect(clients, name, name)
    connection.channel().queue_declare("q", durable=True)
    permissions = {"configure": ".*", "write": ".*", "read": ".*"}
    door.do("PUT", "permissions", name, "guest", body=permissions)
    assert door.get("queues", name, "q")["type"] == "quorum"
    door.do("DELETE", "vhosts", name)
    with pytest.raises(ConnectionClosedByBroker) as closed:
        connection.process_data_events(5)
    assert f"vhost '{name}' is deleted" in closed.value.reply_text
    assert [each["vhost"] for each in door.get("permissions")].count(name) == 0
    assert door.ask("GET", "vhosts", name)[0] == 404
    door.do("PUT", "vhosts", name, body={})
    door.do("PUT", "permissions", name, "guest", body=permissions)
    assert door.get("queues", name) == []


def test_limits_hold_from_the_next_connection_channel_or_queue_on(door, clients, name):
    door.do("PUT", "vhosts", name, body={})
    door.add_user(name, vhost=name)
    door.do("PUT", "vhost-limits", name, "max-connections", body={"value": 1})
    door.do("PUT", "vhost-limits", name, "max-queues", body={"value": 1})
    door.do("PUT", "user-limits", name, "max-channels", body={"value": 2})
    connection = connect(clients, name, name)
    with pytest.raises(ProbableAccessDeniedError, match=r"530.*connection limit \(1\) is reached"):
        connect(clients, name, name)
    channel = connection.channel()
    channel.queue_declare("one")
    with pytest.raises(ChannelClosedByBroker) as refusal:
        channel.queue_declare("two")
    assert (refusal.value.reply_code, "queue limit" in refusal.value.reply_text) == (406, True)
    connection.channel()
    connection.channel()  # the closed one does not count
    with pytest.raises(ConnectionClosedByBroker) as closed:
        connection.channel()
    assert closed.value.reply_code == 530
    door.do("DELETE", "vhost-limits", name, "max-queues")
    connect(clients, name, name).channel().queue_declare("two")
    assert door.get("vhost-limits", name) == [{"vhost": name, "value": {"max-connections": 1}}]
    assert door.ask("PUT", "vhost-limits", name, "max-pigeons", body={"value": 1})[0] == 400
    assert door.ask("PUT", "user-limits", name, "max-channels", body={"value": "x"})[0] == 400


def test_a_policy_gives_an_exchange_its_alternate_at_once(door, clients, name):
    channel = clients.channel()
    channel.exchange_declare(name, "direct")
    channel.exchange_declare(f"{name}-spare", "fanout")
    channel.queue_declare(name)
    channel.queue_bind(name, f"{name}-spare")
    policy = {
        "pattern": f"^{name}$",
        "definition": {"alternate-exchange": f"{name}-spare"},
        "priority": 1,
    }
    assert door.ask("PUT", "policies", "/", name, body=policy)[0] == 201
    assert door.ask("PUT", "policies", "/", name, body=policy)[0] == 204
    channel.basic_publish(name, "nobody", b"caught")
    assert channel.basic_get(name, auto_ack=True)[2] == b"caught"
    assert door.get("exchanges", "/", name)["policy"] == name
    assert door.get("policies", "/", name)["apply-to"] == "all"
    door.do("DELETE", "policies", "/", name)
    channel.basic_publish(name, "nobody", b"lost")
    assert channel.basic_get(name) == (None, None, None)
    for bad in (
        {"pattern": "("},
        {"definition": {"max-lenght": 1}},
        {"priority": "high"},
        {"apply-to": "cats"},
    ):
        assert door.ask("PUT", "policies", "/", name, body=policy | bad)[0] == 400
    assert door.ask("GET", "policies", "/", name)[0] == 404


def test_what_was_changed_is_there_after_a_crash(fresh_broker, name):
    broker = fresh_broker()
    door = ManagementDoor(broker)
    door.do("PUT", "vhosts", name, body={"description": "kept"})
    door.add_user(name, "monitoring", vhost=name)
    door.do(
        "PUT", "topic-permissions", name, name, body={"exchange": "x", "write": "a", "read": "b"}
    )
    door.do("PUT", "policies", name, "p", body={"pattern": "", "definition": {"max-length": 1}})
    door.do(
        "PUT", "operator-policies", name, "o", body={"pattern": "", "definition": {"expires": 1}}
    )
    door.do("PUT", "vhost-limits", name, "max-queues", body={"value": 7})
    door.do("PUT", "user-limits", name, "max-channels", body={"value": 7})
    door.do("PUT", "global-parameters", "g", body={"value": {"a": None}})
    kinds = [
        *("vhosts", "users", "permissions", "topic-permissions", "policies", "operator-policies"),
        *("vhost-limits", "user-limits", "global-parameters"),
    ]
    before = [door.get(kind) for kind in kinds]
    broker.kill()
    broker.start()
    again = ManagementDoor(broker)
    after = [again.get(kind) for kind in kinds]
    strip = [
        [{k: v for k, v in row.items() if k != "cluster_state"} for row in rows] for rows in before
    ]
    assert [
        [{k: v for k, v in row.items() if k != "cluster_state"} for row in rows] for rows in after
    ] == strip
    again.do("DELETE", "vhosts", "/")
    broker.restart()
    assert [vhost["name"] for vhost in ManagementDoor(broker).get("vhosts")] == [name]


def test_an_impersonator_publishes_in_anothers_name_while_he_has_the_tag(door, clients, name):
    door.add_user(name, "impersonator")
    connection = connect(clients, name)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(name)
    for user_id in ("somebody", name):
        channel.basic_publish("", name, b"m", pika.BasicProperties(user_id=user_id))
        assert channel.basic_get(name, auto_ack=True)[1].user_id == user_id
    door.do("PUT", "users", name, "tags", body={"tags": ["management"]})
    forged = pika.BasicProperties(user_id="somebody")
    code, text = refused(channel, lambda: channel.basic_publish("", name, b"m", forged))
    assert (code, f"authenticated user was '{name}'" in text) == (406, True)
