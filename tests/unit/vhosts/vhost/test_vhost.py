"""A virtual host: what is declared, refused, deleted, and found again after a restart."""

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from support.queue_samples import (
    Node,
    Taker,
    bodies,
    declare_queue,
    delete_queue,
    fill,
    got,
    numbered,
    records,
    running_node,
)

from routelog.exchanges import (
    Binding,
    Exchange,
    InvalidName,
    QueueNotFound,
    ReservedName,
)
from routelog.log_backend import Durability
from routelog.vhosts import (
    Delivery,
    InvalidQueueArgument,
    Queue,
    QueueInequivalent,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    QueueProperties,
    VirtualHost,
    pending,
    value_of,
)
from routelog.vhosts.queues.queue_declaration import server_name
from routelog.vhosts.vhost.vhost import DELETIONS_MAX

CONNECTION, OTHER = object(), object()


@pytest.fixture
def vhost(node: Node) -> VirtualHost:
    return node.vhost


def declare(
    vhost: VirtualHost,
    name: str = "q",
    arguments: Mapping[str, object] | None = None,
    connection: object = CONNECTION,
    *,
    durable: bool = False,
    exclusive: bool = False,
    auto_delete: bool = False,
) -> Queue:
    """A declaration whose durability nobody waits for."""
    properties = QueueProperties(name, durable, exclusive, auto_delete, arguments or {})
    return declare_queue(vhost, properties, connection)[0]


async def when_durable(*changes: Awaitable[object] | None) -> None:
    for change in changes:
        if change is not None:
            await change


async def loaded_get(queue: Queue) -> Delivery:
    """basic.get of a message that may be on disk."""
    async with asyncio.timeout(60):
        delivery = await value_of(queue.get())
    assert delivery is not None
    return delivery


def leave(vhost: VirtualHost, queue: Queue, taker: Taker) -> None:
    """As a channel does it for basic.cancel."""
    queue.cancel(taker)
    vhost.delete_left(queue.name)


# -- declaring


def test_a_declared_queue_is_found_by_its_name(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    assert vhost.queue("q", CONNECTION) is queue
    assert vhost.queue("q", OTHER) is queue
    assert vhost.routing.route("", b"q") == ("q",)
    with pytest.raises(QueueNotFound):
        vhost.queue("other", CONNECTION)


def test_a_name_of_the_servers_is_one_that_nobody_has(vhost: VirtualHost) -> None:
    names = {server_name({}) for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("amq.gen-") for name in names)
    name = min(names)
    queue, _ = declare_queue(vhost, QueueProperties(name), CONNECTION, server_named=True)
    assert vhost.queue(name, CONNECTION) is queue
    with pytest.raises(ReservedName):  # nor may a client declare it again
        declare(vhost, name)


@pytest.mark.parametrize(
    ("name", "error"),
    [("amq.mine", ReservedName), ("n" * 256, InvalidName), ("é" * 128, InvalidName)],
)
def test_a_bad_name_is_refused(vhost: VirtualHost, name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        declare(vhost, name)
    assert vhost.queues == {}


def test_bad_arguments_are_refused_and_nothing_is_made(vhost: VirtualHost) -> None:
    with pytest.raises(InvalidQueueArgument):
        declare(vhost, arguments={"x-max-length": "many"})
    assert vhost.queues == {}
    assert vhost.routing.route("", b"q") == ()


def test_only_what_survives_a_restart_becomes_durable(vhost: VirtualHost) -> None:
    for durable in (False, True):
        for exclusive in (False, True):
            properties = QueueProperties(f"{durable}{exclusive}", durable, exclusive)
            queue, done = declare_queue(vhost, properties, CONNECTION)
            stored = durable and not exclusive
            assert (done is not None) is stored
            assert queue.partitions[0].log.durable is stored


# -- declaring again


async def test_what_changes_nothing_is_answered_when_all_nodes_know_what_is_there(
    node: Node, vhost: VirtualHost
) -> None:
    exchange, binding = Exchange("e", "direct"), Binding("e", "q", "queue", "k")
    properties = QueueProperties("q", durable=True)

    def answers() -> list[Awaitable[object] | None]:
        return [
            vhost.declare_exchange(exchange),
            vhost.exchange_declared("e"),
            pending(vhost.declare_queue(properties, CONNECTION)),
            pending(vhost.queue_declared("q", CONNECTION)),
            vhost.bind(binding),
            vhost.unbind(Binding("e", "q", "queue", "other")),
            pending(vhost.delete_queue_of("none", CONNECTION, if_unused=False, if_empty=False)),
        ]

    await when_durable(pending(vhost.declare_queue(properties, CONNECTION)))
    await when_durable(vhost.declare_exchange(exchange), vhost.bind(binding))
    assert answers() == [None] * 7
    known: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    node.writer.known = lambda: known
    waiting = [answer for answer in answers() if answer is not None]
    assert len(waiting) == 7
    done, _ = await asyncio.wait(map(asyncio.ensure_future, waiting), timeout=0)
    assert not done
    known.set_result(1)
    await when_durable(*waiting)


ARGUMENTS = {"x-max-length": 5, "x-expires": 60_000, "x-own": "a"}


@pytest.mark.parametrize("flag", ["durable", "auto_delete"])
def test_declared_again_alike_it_is_the_same_queue(vhost: VirtualHost, flag: str) -> None:
    first = QueueProperties("q", arguments=ARGUMENTS, **{flag: True})
    queue = declare_queue(vhost, first, CONNECTION)[0]
    again = dict(reversed(ARGUMENTS.items())) | {"x-own": "b"}
    properties = QueueProperties("q", arguments=again, **{flag: True})
    assert declare_queue(vhost, properties, OTHER) == (queue, queue.declaring)


@pytest.mark.parametrize(
    ("other", "argument"),
    [
        (QueueProperties("q", durable=True), "durable"),
        (QueueProperties("q", auto_delete=True), "auto_delete"),
    ],
)
def test_another_flag_is_inequivalent(
    vhost: VirtualHost, other: QueueProperties, argument: str
) -> None:
    declare(vhost)
    with pytest.raises(QueueInequivalent) as caught:
        vhost.declare_queue(other, CONNECTION)
    assert str(caught.value) == (
        f"inequivalent arg '{argument}' for queue 'q' in vhost '/': "
        "received 'true' but current is 'false'"
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({**ARGUMENTS, "x-max-length": 6}, QueueInequivalent),
        ({**ARGUMENTS, "x-message-ttl": 6}, QueueInequivalent),
        ({"x-max-length": 5}, QueueInequivalent),
        ({**ARGUMENTS, "x-max-length": "5"}, InvalidQueueArgument),
    ],
)
def test_other_arguments_are_refused(
    vhost: VirtualHost, arguments: dict[str, object], error: type[Exception]
) -> None:
    queue = declare(vhost, arguments=ARGUMENTS)
    with pytest.raises(error):
        declare(vhost, arguments=arguments)
    assert dict(queue.properties.arguments) == ARGUMENTS


def test_an_exclusive_queue_is_locked_to_all_others(vhost: VirtualHost) -> None:
    mine = declare(vhost, exclusive=True)
    assert declare(vhost, exclusive=True) is mine
    for exclusive in (False, True):
        with pytest.raises(QueueLocked):
            declare(vhost, connection=OTHER, exclusive=exclusive)
    with pytest.raises(QueueLocked):
        declare(vhost)
    with pytest.raises(QueueLocked):
        vhost.queue("q", OTHER)
    assert vhost.queue("q", CONNECTION) is mine


def test_a_shared_queue_cannot_become_exclusive(vhost: VirtualHost) -> None:
    declare(vhost)
    with pytest.raises(QueueLocked):
        declare(vhost, exclusive=True)


# -- deleting


def test_a_deleted_queue_is_gone_with_its_bindings(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    vhost.bind(Binding("amq.direct", "q", "queue", "k"))
    fill(queue, 3)
    assert vhost.delete_queue(queue) == 3
    assert vhost.queues == {}
    assert vhost.routing.route("", b"q") == ()
    assert vhost.routing.route("amq.direct", b"k") == ()
    again = declare(vhost)
    assert again is not queue
    assert (again.ready, vhost.routing.route("amq.direct", b"k")) == (0, ())


def test_a_queue_in_use_can_be_kept(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    taker = Taker()
    queue.add_consumer(taker)
    with pytest.raises(QueueInUse):
        vhost.delete_queue(queue, if_unused=True)
    assert taker.deleted == 0
    leave(vhost, queue, taker)
    vhost.delete_queue(queue, if_unused=True)
    assert "q" not in vhost.queues


def test_a_queue_with_messages_can_be_kept(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    fill(queue, 1)
    with pytest.raises(QueueNotEmpty):
        vhost.delete_queue(queue, if_empty=True)
    assert got(queue) is not None  # held by somebody, so it is not in the queue
    assert vhost.delete_queue(queue, if_empty=True) == 0


def test_consumers_hear_of_the_end_and_messages_do_not_come_back(
    node: Node, vhost: VirtualHost
) -> None:
    queue = declare(vhost)
    taker = Taker()
    queue.add_consumer(taker)
    fill(queue, 2)
    node.turns.run()
    assert vhost.delete_queue(queue) == 0
    assert taker.deleted == 1


# -- deletions that happen by themselves


def test_an_auto_delete_queue_goes_with_its_last_consumer(vhost: VirtualHost) -> None:
    queue = declare(vhost, auto_delete=True)
    first, second = Taker(), Taker()
    leave(vhost, queue, first)  # it never had one
    assert "q" in vhost.queues
    queue.add_consumer(first)
    queue.add_consumer(second)
    leave(vhost, queue, first)
    assert "q" in vhost.queues
    leave(vhost, queue, second)
    assert "q" not in vhost.queues
    leave(vhost, queue, second)
    assert (first.deleted, second.deleted) == (0, 0)


def test_any_other_queue_stays_without_consumers(vhost: VirtualHost) -> None:
    queue, taker = declare(vhost), Taker()
    queue.add_consumer(taker)
    leave(vhost, queue, taker)
    assert "q" in vhost.queues


def test_exclusive_queues_go_with_their_connection(vhost: VirtualHost) -> None:
    declare(vhost, "one", exclusive=True)
    declare(vhost, "two", exclusive=True, auto_delete=True)
    declare(vhost, "others", connection=OTHER, exclusive=True)
    declare(vhost, "shared")
    vhost.connection_closed(CONNECTION)
    assert set(vhost.queues) == {"others", "shared"}
    vhost.connection_closed(CONNECTION)
    vhost.connection_closed(OTHER)
    assert set(vhost.queues) == {"shared"}
    declare(vhost, "one", connection=OTHER, exclusive=True)


# -- routes


def test_the_queues_of_a_route_follow_the_topology(vhost: VirtualHost) -> None:
    first, second = declare(vhost, "one"), declare(vhost, "two")
    assert vhost.targets.of(("one", "two")) == (first, second)
    assert vhost.targets.of(()) == ()
    vhost.delete_queue(first)
    again = declare(vhost, "one")
    assert vhost.targets.of(("one",)) == (again,)


# -- after a restart


async def test_durable_topology_is_found_again(tmp_path: Path) -> None:
    arguments = {"x-max-length": 9, "x-float": 0.1, "x-bytes": b"\xff", "n" * 150: Decimal("1.5")}
    arguments |= {"x-time": datetime(2020, 1, 1, tzinfo=UTC), "x-far": 2**64 - 1}
    async with running_node(tmp_path) as node:
        vhost = node.vhost
        kept = QueueProperties("kept", True, arguments=arguments)
        await when_durable(declare_queue(vhost, kept, CONNECTION)[1])
        changes = [
            pending(vhost.declare_queue(QueueProperties("gone"), CONNECTION)),
            pending(vhost.declare_queue(QueueProperties("mine", True, True), CONNECTION)),
            vhost.declare_exchange(Exchange("x", "topic", durable=True, internal=True)),
            vhost.declare_exchange(Exchange("y", "topic")),
            vhost.bind(Binding("x", "kept", "queue", "a.*", arguments)),
            vhost.bind(Binding("y", "kept", "queue", "b")),
            vhost.bind(Binding("x", "gone", "queue", "c")),
            vhost.bind(Binding("amq.fanout", "x", "exchange", "")),
        ]
        await when_durable(*changes)
        assert changes[0] is changes[1] is changes[3] is changes[5] is changes[6] is None
    async with running_node(tmp_path) as node:
        vhost = node.vhost
        assert set(vhost.queues) == {"kept"}
        queue = vhost.queues["kept"]
        assert dict(queue.properties.arguments) == arguments
        assert declare(vhost, "kept", arguments, OTHER, durable=True) is queue
        assert vhost.routing.route("x", b"a.b") == ("kept",)
        assert vhost.routing.route("x", b"c") == ()
        assert vhost.routing.route("amq.fanout", b"a.b") == ("kept",)
        assert vhost.routing.exchange("x").internal
        with pytest.raises(Exception, match="no exchange 'y'"):
            vhost.routing.exchange("y")
        await when_durable(vhost.unbind(Binding("x", "kept", "queue", "a.*", arguments)))
    async with running_node(tmp_path) as node:
        assert node.vhost.routing.route("x", b"a.b") == ()


async def test_what_was_deleted_stays_deleted(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        vhost = node.vhost
        queue, done = declare_queue(vhost, QueueProperties("q", durable=True), CONNECTION)
        kept, also_done = declare_queue(vhost, QueueProperties("kept", durable=True), CONNECTION)
        await when_durable(done, also_done)
        await when_durable(vhost.bind(Binding("amq.direct", "q", "queue", "k")))
        fill(queue, 5)
        fill(kept, 5)
        await when_durable(delete_queue(vhost, queue))
    async with running_node(tmp_path) as node:
        vhost = node.vhost
        assert set(vhost.queues) == {"kept"}
        again = declare(vhost, "q", durable=True)
        assert again.ready == 0
        assert vhost.routing.route("amq.direct", b"k") == ()
        assert vhost.queues["kept"].ready == 5


async def test_persistent_messages_are_found_again_and_transient_ones_are_not(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node:
        queue, done = declare_queue(node.vhost, QueueProperties("q", durable=True), CONNECTION)
        await when_durable(done)
        queue.publish(records("m0", "m1"), waited=False)
        queue.publish(records("t0", "t1", persistent=False), waited=False)
        queue.publish(records("m2"), waited=False)
        queue.publish(records("t2", persistent=False), waited=False)
        first = got(queue)
        assert first is not None
        first.partition.settle(0, 1)
        assert got(queue) is not None  # neither settled nor returned
    async with running_node(tmp_path) as node:
        queue = node.vhost.queues["q"]
        assert queue.ready == 2
        seen = [bodies(await loaded_get(queue)) for _ in range(2)]
        assert seen == [["m1"], ["m2"]]
        assert got(queue) is None
        queue.publish(records("m3"), waited=False)
        assert bodies(await loaded_get(queue)) == ["m3"]


async def test_a_purge_survives(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        queue, done = declare_queue(node.vhost, QueueProperties("q", durable=True), CONNECTION)
        await when_durable(done)
        fill(queue, 10)
        assert queue.purge() == 10
        fill(queue, 2)
    async with running_node(tmp_path) as node:
        queue = node.vhost.queues["q"]
        assert [bodies(await loaded_get(queue))[0] for _ in range(2)] == numbered(0, 2)
        assert queue.ready == 0


async def test_many_exclusive_queues_go_with_their_connection_over_several_turns(
    node: Node, vhost: VirtualHost
) -> None:
    count = 2 * DELETIONS_MAX + 1
    for number in range(count):
        declare(vhost, f"mine{number}", exclusive=True)
    declare(vhost, "other", connection=OTHER, exclusive=True)
    declare(vhost, "nobody's")
    vhost.connection_closed(CONNECTION)
    assert len(vhost.queues) == count - DELETIONS_MAX + 2
    # It is told twice: two would delete twice as many in a turn
    vhost.connection_closed(CONNECTION)
    assert len(vhost.queues) == count - DELETIONS_MAX + 2
    left = next(name for name in vhost.queues if name.startswith("mine"))
    vhost.delete_queue(vhost.queues[left])
    assert node.turns.one() == 1
    assert len(vhost.queues) == 2
    node.turns.run()
    assert sorted(vhost.queues) == ["nobody's", "other"]


# -- durability


async def test_a_queue_has_the_durability_of_its_argument_after_a_restart_too(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node:
        declared = [
            declare(node.vhost, level, {"x-durability": str(level)}, durable=True)
            for level in Durability
        ]
        assert [queue.durability for queue in declared] == list(Durability)
        assert declare(node.vhost, "plain", durable=True).durability is Durability.DISK
        assert declare(node.vhost, "transient").durability is Durability.MEMORY
        exclusive = declare(node.vhost, "exclusive", durable=True, exclusive=True)
        assert exclusive.durability is Durability.MEMORY
        await when_durable(*(queue.declaring for queue in node.vhost.queues.values()))
    async with running_node(tmp_path) as node:
        for level in Durability:
            assert node.vhost.queues[level].durability is level


def test_a_queue_that_ends_with_its_connection_cannot_ask_for_more(vhost: VirtualHost) -> None:
    with pytest.raises(InvalidQueueArgument):
        declare(vhost, "q", {"x-durability": "os"}, durable=True, exclusive=True)
    assert "q" not in vhost.queues
