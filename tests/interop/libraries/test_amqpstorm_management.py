"""AMQPStorm's client of the HTTP API: its whole surface.

Against a broker that is already there, `ROUTELOG_TEST_MANAGEMENT_URL` is the address of its API.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import amqpstorm
import pytest
from amqpstorm.management import ApiError, ManagementApi
from support.broker_process import BrokerProcess, ForeignBroker
from support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.interop

FOREIGN_API_URL = os.environ.get("ROUTELOG_TEST_MANAGEMENT_URL", "")


def api_of(
    broker: BrokerProcess | ForeignBroker, user: str = "guest", password: str = "guest"
) -> ManagementApi:
    if isinstance(broker, ForeignBroker):
        return ManagementApi(FOREIGN_API_URL, user, password)
    door = json.loads((broker.data_dir / "management.json").read_text())
    return ManagementApi(door["url"], user, password)


@pytest.fixture
def api(broker) -> ManagementApi:
    if broker.foreign and not FOREIGN_API_URL:
        pytest.skip("the address of its HTTP API is not known")
    return api_of(broker)


@pytest.fixture
def connection(api, broker) -> Iterator[amqpstorm.Connection]:
    client = {"connection_name": "managed"}
    with amqpstorm.Connection(
        broker.host, "guest", "guest", port=broker.port, client_properties=client
    ) as opened:
        yield opened


@pytest.mark.differs_at_fronts("there are three nodes")
def test_the_broker_tells_who_it_is_and_that_it_is_well(api) -> None:
    assert api.aliveness_test("/") == {"status": "ok"}
    assert api.healthchecks.get() == {"status": "ok"}
    overview = api.overview()
    assert overview["cluster_name"] == api.cluster_name()["name"]
    assert overview["object_totals"]["exchanges"] >= 7
    (node,) = api.nodes()
    assert (node["name"], node["running"]) == (overview["node"], True)
    assert api.node(node["name"])["name"] == node["name"]
    assert api.healthchecks.get(overview["contexts"][0]["node"]) == {"status": "ok"}
    assert api.whoami() == {"name": "guest", "tags": ["administrator"]}


@pytest.mark.differs_from_rabbitmq("it has processes of Erlang to show")
def test_there_is_no_list_of_processes(api) -> None:
    with pytest.raises(ApiError) as caught:
        api.top()
    assert caught.value.error_code == 404


def test_exchanges_queues_and_bindings_are_made_shown_and_removed(api, name) -> None:
    source, target, queue = (f"{name}.{kind}" for kind in ("source", "target", "queue"))
    api.exchange.declare(source, exchange_type="topic", durable=True)
    api.exchange.declare(target, exchange_type="fanout", arguments={"kept": 1})
    shown = api.exchange.get(source)
    assert (shown["name"], shown["type"], shown["durable"]) == (source, "topic", True)
    assert api.exchange.declare(source, passive=True)["name"] == source
    assert source in [each["name"] for each in api.exchange.list(show_all=True)]
    assert [each["name"] for each in api.exchange.list(name=name)] == [source, target]
    api.queue.declare(queue, durable=True, arguments={"x-max-length": 9})
    assert api.queue.get(queue)["arguments"] == {"x-max-length": 9}
    assert api.queue.declare(queue, passive=True)["durable"] is True
    assert [each["name"] for each in api.queue.list(name=f"{name}.q.*", use_regex=True)] == [queue]
    api.exchange.bind(source=source, destination=target, routing_key="a.*")
    api.queue.bind(queue, target, "key")
    (bound,) = [each for each in api.queue.bindings(queue) if each["source"]]
    assert (bound["source"], bound["routing_key"]) == (target, "key")
    assert [each["destination"] for each in api.exchange.bindings(source)] == [target]
    api.queue.unbind(queue, target, "key")
    api.exchange.unbind(source=source, destination=target, routing_key="a.*")
    assert api.exchange.bindings(source) == []
    assert [each["source"] for each in api.queue.bindings(queue)] == [""]
    api.queue.delete(queue)
    for exchange in (source, target):
        api.exchange.delete(exchange)
    for gone in (lambda: api.queue.get(queue), lambda: api.exchange.get(source)):
        with pytest.raises(ApiError) as caught:
            gone()
        assert caught.value.error_code == 404


def test_messages_are_published_looked_at_and_purged(api, name) -> None:
    api.queue.declare(name)
    properties = {"headers": {"n": 1}, "content_type": "text/plain"}
    assert api.basic.publish("one", name, properties=properties) == {"routed": True}
    assert api.basic.publish("dHdv", name, payload_encoding="base64") == {"routed": True}
    assert api.basic.publish("nobody's", f"{name}.nowhere") == {"routed": False}
    first = api.basic.get(name, requeue=True)
    assert [(each.body, each.properties["headers"]) for each in first] == [("one", {"n": 1})]
    shown = api.basic.get(name, count=5, to_dict=True)
    assert [(each["payload"], each["redelivered"]) for each in shown] == [
        ("one", True),
        ("two", False),
    ]
    api.basic.publish("three", name)
    api.queue.purge(name)
    assert api.basic.get(name) == []
    api.queue.delete(name)


def test_connections_and_channels_are_listed_and_closed(api, connection) -> None:
    channel = connection.channel()
    channel.basic.qos(7)

    def mine(each: dict) -> bool:
        return each.get("client_properties", {}).get("connection_name") == "managed"

    wait_until(lambda: any(map(mine, api.connection.list())), seconds=WAIT_SECONDS)
    (shown,) = [each for each in api.connection.list(name="") if mine(each)]
    assert api.connection.get(shown["name"])["user"] == "guest"
    of_mine = [
        each for each in api.channel.list() if each["connection_details"]["name"] == shown["name"]
    ]
    assert [each["number"] for each in of_mine] == [int(channel)]
    assert api.channel.get(of_mine[0]["name"])["prefetch_count"] == 7
    api.connection.close(shown["name"], reason="enough")
    wait_until(lambda: connection.is_closed, seconds=WAIT_SECONDS)
    assert "enough" in str(connection.exceptions[0])


def test_users_vhosts_and_permissions_are_made_and_count(api, broker, name) -> None:
    vhost, user = f"{name}/vhost", f"{name}.user"
    api.virtual_host.create(vhost)
    assert api.virtual_host.get(vhost)["name"] == vhost
    assert vhost in [each["name"] for each in api.virtual_host.list()]
    api.user.create(user, "secret", tags="management")
    assert api.user.get(user)["tags"] in ("management", ["management"])
    assert user in [each["name"] for each in api.user.list()]
    api.user.set_permission(user, vhost, configure_regex="^mine", write_regex="", read_regex=".*")
    given = {"user": user, "vhost": vhost, "configure": "^mine", "write": "", "read": ".*"}
    assert api.user.get_permission(user, vhost) == given
    assert api.user.get_permissions(user) == [given]
    assert given in api.virtual_host.get_permissions(vhost)
    as_user = api_of(broker, user, "secret")
    assert as_user.whoami()["name"] == user
    assert [each["name"] for each in as_user.virtual_host.list()] == [vhost]
    with amqpstorm.Connection(
        broker.host, user, "secret", port=broker.port, virtual_host=vhost
    ) as connection:
        with connection.channel() as channel:
            channel.queue.declare("mine")
        with pytest.raises(amqpstorm.AMQPChannelError, match="ACCESS_REFUSED"):
            connection.channel().queue.declare("yours")
    api.user.delete_permission(user, vhost)
    assert api.user.get_permissions(user) == []
    api.user.delete(user)
    api.virtual_host.delete(vhost)
    with pytest.raises(ApiError):
        as_user.whoami()


def test_a_name_that_is_wrong_and_a_user_without_rights_are_told_so(api, broker, name) -> None:
    with pytest.raises(ApiError) as caught:
        api.exchange.declare(name, exchange_type="no-such-type")
    assert caught.value.error_code == 400
    with pytest.raises(ApiError) as caught:
        api_of(broker, password="wrong").overview()
    assert caught.value.error_code == 401
