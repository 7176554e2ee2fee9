"""What somebody may not do, or not so often: each refused as written, beside a bystander."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from pamqp import commands
from scenarios.clients.bad_input import Row, assert_nobody_noticed, assert_outcome
from scenarios.clients.bystander import Bystander
from scenarios.clients.raw_client import Dropped, Outcome, RawClient, content_header, plain, publish
from scenarios.nodes.impatient_broker import CLOSE_SECONDS
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")

Basic, Channel, Connection = commands.Basic, commands.Channel, commands.Connection
Exchange, Queue = commands.Exchange, commands.Queue

PROXIED = b"PROXY TCP4 192.0.2.7 127.0.0.1 40312 5672\r\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("refused")).start()
    door = ManagementDoor(process)
    for vhost in ("closed", "full", "small"):
        door.do("PUT", "vhosts", vhost)
    for vhost in ("full", "small"):
        allowed = dict.fromkeys(("configure", "write", "read"), ".*")
        door.do("PUT", "permissions", vhost, "guest", body=allowed)
    for name in ("stranger", "reader", "busy", "quiet"):
        door.add_user(name)
    door.do("DELETE", "permissions", "/", "stranger")
    reads = {"configure": "^own", "write": "^own|^amq.topic$", "read": "^own|^amq.direct$"}
    door.do("PUT", "permissions", "/", "reader", body=reads)
    topic = {"exchange": "amq.topic", "write": "^allowed", "read": "^allowed"}
    door.do("PUT", "topic-permissions", "/", "reader", body=topic)
    for path, value in (
        (("vhost-limits", "full", "max-connections"), 0),
        (("vhost-limits", "small", "max-queues"), 1),
        (("user-limits", "busy", "max-connections"), 0),
        (("user-limits", "quiet", "max-channels"), 2),
    ):
        door.do("PUT", *path, body={"value": value})
    yield process
    process.stop()


@pytest.fixture(scope="module")
def beside(world: BrokerProcess) -> Iterator[Bystander]:
    watching = Bystander(world.host, world.port)
    yield watching
    watching.stop()


def opened_by(user: str, vhost: str = "/") -> Callable[[RawClient], None]:
    """Log in, and ask for a vhost."""

    def act(client: RawClient) -> None:
        client.start()
        client.log_in(response=plain(user, user))
        client.tune_ok()
        client.send(Connection.Open(vhost))

    return act


def does(user: str, *values, vhost: str = "/") -> Callable[[RawClient], None]:
    """Open channel 1 as a user and send methods, or bytes."""

    def act(client: RawClient) -> None:
        client.open(vhost, response=plain(user, user))
        client.open_channel()
        for value in values:
            client.send_bytes(value) if isinstance(value, bytes) else client.send(value, 1)

    return act


def declares_two_queues(client: RawClient) -> None:
    does("guest", vhost="small")(client)
    client.declare("first")
    client.send(Queue.Declare(queue="second", exclusive=True), 1)


def opens_three_channels(client: RawClient) -> None:
    does("quiet")(client)
    client.open_channel(2)
    client.send(Channel.Open(), 3)


ROWS = [
    Row("a vhost without a permission", opened_by("stranger"), "connection", 530, "refused"),
    Row("a vhost that is not there", opened_by("guest", "nowhere"), "connection", 530, "not found"),
    Row("a full vhost", opened_by("guest", "full"), "connection", 530, "connection limit"),
    Row("a user with all his connections", opened_by("busy"), "connection", 530, "limit"),
    Row("a user with all his channels", opens_three_channels, "connection", 530, "limit"),
    Row("one queue more than a vhost may have", declares_two_queues, "channel", 406, "limit"),
    Row(
        "publish without a permission",
        does("reader", publish("amq.fanout", "k"), content_header(0)),
        *("channel", 403, "write access to exchange 'amq.fanout' in vhost '/' refused"),
    ),
    Row(
        "publish to the default exchange without a permission",
        does("reader", publish("", "k"), content_header(0)),
        *("channel", 403, "write access to exchange 'amq.default' in vhost '/' refused"),
    ),
    Row(
        "publish to a topic that is not allowed",
        does("reader", publish("amq.topic", "secret.k"), content_header(0)),
        *("channel", 403, "access to topic 'secret.k' in exchange 'amq.topic'"),
    ),
    Row(
        "publish to a topic that is allowed",
        does("reader", publish("amq.topic", "allowed.k"), content_header(0)),
        "ok",
    ),
    Row(
        "declare a queue without a permission",
        does("reader", Queue.Declare(queue="others")),
        *("channel", 403, "access to queue 'others' in vhost '/' refused for user 'reader'"),
    ),
    Row(
        "look for a missing queue without a permission",
        does("reader", Queue.Declare(queue="others", passive=True)),
        *("channel", 403, "access to queue 'others' in vhost '/' refused for user 'reader'"),
    ),
    *(
        Row(
            f"{method.name} of a missing queue without a permission",
            does("reader", method),
            *("channel", 403, "read access to queue 'others' in vhost '/' refused"),
        )
        for method in (
            Basic.Get(queue="others"),
            Basic.Consume(queue="others"),
            Queue.Purge(queue="others"),
        )
    ),
    Row(
        "declare an exchange without a permission",
        does("reader", Exchange.Declare(exchange="others")),
        *("channel", 403, "access to exchange 'others' in vhost '/' refused for user 'reader'"),
    ),
    Row(
        "bind from an exchange without a permission",
        does(
            "reader",
            Queue.Declare(queue="own.bound", auto_delete=True),
            Queue.Bind(queue="own.bound", exchange="amq.fanout"),
        ),
        *("channel", 403, "read access to exchange 'amq.fanout' in vhost '/' refused"),
    ),
    Row(
        "give dead letters to an exchange without a permission",
        does(
            "reader",
            Queue.Declare(queue="own.dead", arguments={"x-dead-letter-exchange": "amq.fanout"}),
        ),
        *("channel", 403, "access to exchange 'amq.fanout' in vhost '/' refused"),
    ),
]


def outcome(client: RawClient) -> Outcome:
    """What opening a connection, or using it, came to."""
    try:
        return client.outcome()
    except Dropped:
        return Outcome("drop")


@pytest.mark.parametrize("row", [pytest.param(row, id=row.claim) for row in ROWS])
def test_what_is_not_allowed_ends_as_written(world, beside, row: Row) -> None:
    with RawClient(world.host, world.port) as client:
        row.act(client)
        assert_outcome(row, outcome(client))
    assert_nobody_noticed(world, beside)


def test_guest_from_elsewhere_is_a_wrong_password(fresh_broker) -> None:
    broker = fresh_broker(ROUTELOG_PROXY_PROTOCOL_SOURCES="127.0.0.0/8")
    for capabilities, scope, code in ((None, "connection", 403), ({}, "drop", 0)):
        with RawClient(broker.host, broker.port) as client:
            client.send_bytes(PROXIED)
            client.start()
            client.log_in(capabilities=capabilities)
            try:
                closed = client.expect(Connection.Close)
            except Dropped:
                assert scope == "drop"
                continue
            assert (scope, closed.reply_code) == ("connection", code)


def test_who_ignores_the_end_of_his_connection_is_cut_off(impatient_broker) -> None:
    address = impatient_broker.host, impatient_broker.port
    with RawClient(*address) as client, RawClient(*address) as other:
        other.open()
        other.open_channel()
        client.open()
        client.open_channel()
        begun = time.monotonic()
        client.send(Basic.Qos(prefetch_size=1), 1)
        assert client.expect(Connection.Close).reply_code == 540
        client.send(Queue.Declare(queue="too.late"), 1)  # nothing but close and close-ok is heard
        client.wait_until_dropped()
        assert time.monotonic() - begun > CLOSE_SECONDS * 0.9  # the loops count milliseconds
        other.send(Queue.Declare(queue="too.late", passive=True), 1)
        assert other.expect(Channel.Close).reply_code == 404


def test_an_operator_closes_a_connection_with_320(world, beside) -> None:
    door = ManagementDoor(world)
    with RawClient(world.host, world.port) as client:
        client.open(response=plain("reader", "reader"))
        door.do("DELETE", "connections", "username", "reader")
        closed = client.expect(Connection.Close)
        assert (closed.reply_code, "CONNECTION_FORCED" in closed.reply_text) == (320, True)
    assert_nobody_noticed(world, beside)
