"""Queues: what there is to say of them, and what operators do with them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec

from routelog.log_backend import Reason
from routelog.management.calls.answer import Answer, Empty, Listing, Pieces, Row, Value, put
from routelog.management.calls.call import DISABLE_STATS, STATISTICS, Call
from routelog.management.calls.failures import bad_request, not_found
from routelog.management.calls.message_rows import TakenMessageRow, message_rows, taken_row
from routelog.management.calls.operation import Parameter, Query, answers, changes, lists, puts
from routelog.management.calls.queue_bytes import (
    LISTED_STRETCHES_MAX,
    STRETCHES_MAX,
    QueueBytes,
    queue_bytes,
)
from routelog.management.shapes.exchange import BindingRow
from routelog.management.shapes.queue import OneQueue, QueueRow, QueueType, SettingRow, Source
from routelog.management.views.bindings import binding_row
from routelog.management.views.consumers import consumer_rows_of_queue
from routelog.management.views.flows import flows_of_queue
from routelog.management.views.queue_actions import actions_of
from routelog.mirror_cluster import ReplicaState
from routelog.vhosts import (
    REPLICATED,
    Queue,
    QueueProperties,
    ResourceKind,
    ReturnReason,
    Verb,
    VirtualHost,
    checked_arguments,
    merged_definitions,
    plain_arguments,
    value_of,
)

# Also the document's: `$` alone would let the end of a line pass, and \Z is none of JSON Schema's.
WHOLE_NUMBER = msgspec.Meta(pattern=r"^[+-]?[0-9]{1,18}(?!\n)$")
TOTALS = {"messages", "messages_ready", "messages_unacknowledged"}
COUNTS = {"consumers", "messages_delayed", "messages_dlx"}
_Queue = TypeVar("_Queue", bound=QueueRow)

GET_MESSAGES_MAX = 1_000  # of one request: they are in memory as a whole


class QueueBody(msgspec.Struct):
    """What a queue is declared with."""

    durable: bool = True
    auto_delete: bool = False
    arguments: dict[str, Any] = {}


# What becomes of messages that are taken: as a client's basic.ack or basic.reject, or when its channel ends.
_OUTCOMES: Mapping[str, Reason | ReturnReason] = {
    "ack_requeue_true": ReturnReason.EXCUSED,
    "ack_requeue_false": Reason.ACKED,
    "reject_requeue_true": ReturnReason.FAILED,
    "reject_requeue_false": Reason.REJECTED,
}


class GetBody(msgspec.Struct):
    """How many messages are taken, and what becomes of them; rabbitmqadmin sends numbers as text."""

    count: int | Annotated[str, WHOLE_NUMBER]
    ackmode: Literal[
        "ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"
    ]
    encoding: Literal["auto", "base64"]
    truncate: int | Annotated[str, WHOLE_NUMBER] | None = None


# Some of the queues alone, by what `only` says.
_ONLY: Mapping[str, Callable[[Queue], object]] = {
    "used": lambda queue: queue.ready or queue.unacked or queue.consumer_count,
    "unconsumed": lambda queue: queue.ready and not queue.is_stream and not queue.consumer_count,
    "streams": lambda queue: queue.is_stream,
}
ONLY: Query = {
    "only": Parameter(
        "those with messages or consumers; with messages and no consumer; streams",
        Literal["used", "unconsumed", "streams"],
    )
}


@lists(QueueRow, STATISTICS | DISABLE_STATS | ONLY, has_pages=True)
def list_queues(call: Call) -> Answer:
    """The queues of the vhosts that the caller sees."""
    return _listing(call, call.seen_vhosts())


@lists(QueueRow, STATISTICS | DISABLE_STATS | ONLY, has_pages=True)
def list_queues_of_vhost(call: Call) -> Answer:
    """The queues of a vhost."""
    return _listing(call, [call.vhost])


def _listing(call: Call, vhosts: list[VirtualHost]) -> Listing:
    describe = _described(call)
    only = call.query.get("only", "")
    if only and only not in _ONLY:
        raise bad_request(f"only is one of {', '.join(_ONLY)}")
    items = (queue for vhost in vhosts for queue in vhost.queues.values())
    return Listing(
        filter(_ONLY[only], items) if only else items,
        describe,
        lambda queue: str(queue.name),
        lambda queue: (queue.vhost, queue.name),
        _COLUMNS,
        None if only else partial(_stretch, sorted(vhosts, key=lambda vhost: vhost.name)),
    )


def _stretch(vhosts: list[VirtualHost], first: int, end: int) -> tuple[int, list[Queue]]:
    total = 0
    found: list[Queue] = []
    for vhost in vhosts:
        found += vhost.queues.in_order(first - total, end - total)
        total += len(vhost.queues)
    return total, found


def _described(
    call: Call, stretches_max: int = LISTED_STRETCHES_MAX
) -> Callable[[Queue], QueueRow | None]:
    # A queue with its statistics, or as little as `disable_stats` asks for.
    node, replicas = call.broker.node.name, call.broker.cluster.replicas()
    min_in_sync, statistics = call.broker.cluster.min_in_sync, call.statistics()
    left_out: set[str] = set()
    if call.flag("disable_stats"):
        left_out = COUNTS if call.flag("enable_queue_totals") else COUNTS | TOTALS

    def described(queue: Queue) -> QueueRow | None:
        row = queue_row(queue, node, replicas, min_in_sync)
        if row is None:
            return None
        if left_out:
            return _with(row, dict.fromkeys(left_out, msgspec.UNSET))
        ready, unacked = queue.ready, queue.unacked
        found = queue_bytes(queue, stretches_max) if ready or unacked else QueueBytes()
        _with(row, statistics.idle_since(queue.counters, call.broker.node.started_at))
        _with(row, statistics.of_queue(queue, ready, unacked))
        return _with(row, _bytes(found, ready, unacked))

    return described


def _with(row: _Queue, values: Row) -> _Queue:
    for name, value in values.items():
        setattr(row, name, value)
    return row


# What lists of queues are sorted by; see `queue_row`.
_COLUMNS: Mapping[str, Callable[[Queue], object]] = {
    "name": lambda queue: queue.name,
    "vhost": lambda queue: queue.vhost,
    "type": lambda queue: queue.type,
    "messages": lambda queue: queue.ready + queue.unacked + queue.delayed,
    "messages_delayed": lambda queue: queue.delayed,
    "messages_ready": lambda queue: queue.ready,
    "messages_unacknowledged": lambda queue: queue.unacked,
    "consumers": lambda queue: queue.consumer_count,
    "policy": lambda queue: queue.effective.policy and queue.effective.policy.name,
}


def queue_row(
    queue: Queue, node: str, replicas: Sequence[ReplicaState], min_in_sync: int
) -> QueueRow | None:
    """A queue as RabbitMQ shows it; None when it has been deleted.

    Args:
        node: this one, which leads.
        replicas: all nodes, this one among them.
    """
    if queue.deleted:
        return None
    properties, effective = queue.properties, queue.effective
    ready, unacked = queue.ready, queue.unacked
    asked = merged_definitions(effective.policy, effective.operator_policy)
    return QueueRow(
        name=queue.name,
        vhost=queue.vhost,
        durable=properties.durable,
        auto_delete=properties.auto_delete,
        exclusive=properties.exclusive,
        arguments=plain_arguments(properties.arguments),
        type=cast(QueueType, queue.type),
        node=node,
        state="paused" if queue.paused else "running",
        policy=None if effective.policy is None else effective.policy.name,
        operator_policy=(
            None if effective.operator_policy is None else effective.operator_policy.name
        ),
        effective_policy_definition=asked,
        consumers=queue.consumer_count,
        messages=ready + unacked + queue.delayed,
        messages_delayed=queue.delayed,
        messages_dlx=0 if queue.rules is None else queue.rules.kept_letters,
        messages_ready=ready,
        messages_unacknowledged=unacked,
        head_message_timestamp=_head_timestamp(queue),
        **_only_consumer(queue),
        partitions=len(queue.partitions),
        durability=str(queue.durability),
        **_replica_row(queue, node, asked, replicas),
        min_in_sync=min_in_sync if "min-in-sync" in asked else msgspec.UNSET,
    )


def _head_timestamp(queue: Queue) -> int | None:
    # With several partitions there are several heads; a stream is read from anywhere.
    alone = len(queue.partitions) == 1 and not queue.is_stream
    return queue.partitions[0].head_timestamp if alone else None


def _only_consumer(queue: Queue) -> Row:
    first = queue.consumers[0] if queue.consumers else None
    is_single = first is not None and queue.activity(first) == "single_active"
    return {
        "exclusive_consumer_tag": first.tag if first is not None and first.exclusive else None,
        "single_active_consumer_tag": first.tag if first is not None and is_single else None,
    }


def _replica_row(
    queue: Queue, node: str, asked: Mapping[str, object], replicas: Sequence[ReplicaState]
) -> Row:
    # In RabbitMQ's words. A durable queue is on all nodes, whatever is asked for.
    if queue.type in REPLICATED:
        return {
            "leader": node,
            "members": [each.name for each in replicas],
            "online": [each.name for each in replicas if each.is_running],
        }
    if "ha-mode" not in asked:
        return {}
    others = [each for each in replicas if each.is_running and each.name != node]
    others = others if queue.properties.durable else []
    return {
        "slave_nodes": [each.name for each in others],
        "synchronised_slave_nodes": [each.name for each in others if each.is_in_sync],
    }


@answers(OneQueue, query=STATISTICS | DISABLE_STATS)
async def get_queue(call: Call) -> Answer:
    """A queue, with its consumers."""
    queue = _queue(call)
    row = _described(call, STRETCHES_MAX)(queue)
    if row is None:
        raise not_found("queue", call.path("name"), call.vhost.name)
    consumers = await consumer_rows_of_queue(call, queue)
    said = msgspec.structs.asdict(row)
    one = OneQueue(
        **said,
        actions=actions_of(queue),
        consumer_details=consumers,
        settings=setting_rows(queue),
    )
    if not call.flag("disable_stats"):
        _with(one, await flows_of_queue(call, queue))
    return Value(one)


def _bytes(found: QueueBytes, ready: int, unacked: int) -> Row:
    return {
        "message_bytes": found.total,
        "message_bytes_ready": found.share(ready, ready + unacked),
        "message_bytes_unacknowledged": found.share(unacked, ready + unacked),
        "message_bytes_ram": found.in_memory,
        "message_bytes_persistent": found.persistent,
        "messages_ram": found.messages_in_memory,
        "messages_persistent": found.messages_persistent,
    }


def setting_rows(queue: Queue) -> list[SettingRow]:
    """The arguments in force, and where each comes from: an argument or one of the policies."""
    effective = queue.effective
    rows: list[SettingRow] = []
    for name, value in plain_arguments(effective.values).items():
        key, policy = name.removeprefix("x-"), ""
        source: Source = "argument"
        if queue.properties.arguments.get(name) != effective.values[name]:
            operator = effective.operator_policy
            is_operators = operator is not None and operator.effective.get(key) == value
            chosen = operator if is_operators else effective.policy or operator
            source = "operator policy" if chosen is operator else "policy"
            policy = "" if chosen is None else chosen.name
        rows.append(SettingRow(name, value, source, policy))
    return sorted(rows, key=lambda row: row.name)


@puts(QueueBody)
async def put_queue(call: Call) -> Answer:
    """Declare a queue."""
    body = await call.body(QueueBody)
    name, vhost = call.path("name"), call.vhost
    await vhost.until_free("queue", name)
    call.on_body()  # it may have been long
    call.caller.authorize(vhost.name, ResourceKind.QUEUE, name, Verb.CONFIGURE)
    _authorize_dead_letters(call, name, body.arguments)
    arguments = checked_arguments(body.arguments)
    existed = name in vhost.queues
    properties = QueueProperties(
        name, body.durable, auto_delete=body.auto_delete, arguments=arguments
    )
    await value_of(vhost.declare_queue(properties, call))
    return put(existed)


def _authorize_dead_letters(call: Call, queue: str, arguments: Mapping[str, object]) -> None:
    dead_letters, vhost = arguments.get("x-dead-letter-exchange"), call.vhost.name
    if isinstance(dead_letters, str):
        call.caller.authorize(vhost, ResourceKind.QUEUE, queue, Verb.READ)
        call.caller.authorize(vhost, ResourceKind.EXCHANGE, dead_letters, Verb.WRITE)


@changes(
    query={
        "if-unused": Parameter("not while it has consumers", bool),
        "if-empty": Parameter("not while it has messages", bool),
    }
)
async def delete_queue(call: Call) -> Answer:
    """Delete a queue."""
    queue = _queue(call)
    call.caller.authorize(queue.vhost, ResourceKind.QUEUE, queue.name, Verb.CONFIGURE)
    queue.check_access(call)
    conditions = {"if_unused": call.flag("if-unused"), "if_empty": call.flag("if-empty")}
    await value_of(call.vhost.delete_queue(queue, **conditions))
    return Empty()


@changes(dict[str, Any])
async def change_queue(call: Call) -> Answer:
    """Change arguments of a queue; null removes one. Consumers and messages stay."""
    asked = await call.json()
    if not isinstance(asked, dict):
        raise bad_request("not_json")
    queue = _queue(call)
    call.caller.authorize(queue.vhost, ResourceKind.QUEUE, queue.name, Verb.CONFIGURE)
    queue.check_access(call)
    _authorize_dead_letters(call, queue.name, asked)
    await call.vhost.change_queue(queue, asked)
    return Empty()


@changes()
async def pause_queue(call: Call) -> Answer:
    """Let a queue hand out nothing until it is resumed; publishes, acks and expiry go on."""
    return await _pause(call, paused=True)


@changes()
async def resume_queue(call: Call) -> Answer:
    """Let a paused queue hand out again."""
    return await _pause(call, paused=False)


async def _pause(call: Call, *, paused: bool) -> Answer:
    queue = _queue(call)
    call.caller.authorize(queue.vhost, ResourceKind.QUEUE, queue.name, Verb.CONFIGURE)
    queue.check_access(call)
    await call.vhost.pause_queue(queue, paused=paused)
    return Empty()


@changes()
def purge_queue(call: Call) -> Answer:
    """Drop all messages that are ready."""
    queue = _queue(call)
    call.caller.authorize(queue.vhost, ResourceKind.QUEUE, queue.name, Verb.READ)
    queue.check_access(call)
    if queue.is_stream:
        raise bad_request(f"purge of stream '{queue.name}'")
    queue.purge()
    return Empty()


@lists(BindingRow)
def list_queue_bindings(call: Call) -> Answer:
    """The bindings to a queue."""
    queue = _queue(call)
    bindings = call.vhost.routing.bindings_to_queue(queue.name)
    return Listing(bindings, lambda binding: binding_row(queue.vhost, binding))


@answers(list[TakenMessageRow], body=GetBody)
async def get_messages(call: Call) -> Answer:
    """Take messages from a queue, for debugging: every one is marked as redelivered afterwards."""
    queue = _queue(call)
    body = await call.body(GetBody)
    call.caller.authorize(queue.vhost, ResourceKind.QUEUE, queue.name, Verb.READ)
    queue.check_access(call)
    count = int(body.count)
    if not 1 <= count <= GET_MESSAGES_MAX:
        raise bad_request(f"count is not between 1 and {GET_MESSAGES_MAX}")
    taken = await call.broker.messages.take(queue, count, _OUTCOMES[body.ackmode])
    bytes_max = None if body.truncate is None else max(0, int(body.truncate))
    rows = ((taken_row(each), each.body) for each in taken)
    return Pieces(message_rows(rows, as_text=body.encoding == "auto", bytes_max=bytes_max))


def _queue(call: Call) -> Queue:
    queue = call.vhost.queues.get(call.path("name"))
    if queue is None:
        raise not_found("queue", call.path("name"), call.vhost.name)
    return queue
