"""Virtual hosts, and the definitions of one or all."""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import msgspec

from routelog.log_backend import Lane, in_turns
from routelog.management.calls.answer import Answer, Empty, Listing, Pieces, Row, Value, put
from routelog.management.calls.call import DEFINITIONS_BYTES_MAX, STATISTICS, Call
from routelog.management.calls.failures import bad_request, not_found
from routelog.management.calls.listing import SLICE_ITEMS, slices
from routelog.management.calls.operation import Parameter, Query, answers, changes, lists, puts
from routelog.management.calls.other_statistics import added, other_vhosts
from routelog.management.shapes.definitions import VhostRow
from routelog.mirror_cluster import ReplicaState
from routelog.vhosts import (
    FULL_PERMISSION,
    RABBITMQ_VERSION,
    Definitions,
    DefinitionsImport,
    VhostRecord,
    VirtualHost,
    described_vhost,
    exported_definitions,
    planned_import,
    read_definitions_in_turns,
    split_tags,
)

DOWNLOAD: Query = {"download": Parameter("the name of the file that a browser keeps it in")}
IMPORT: Query = {
    "unknown": Parameter("what becomes of entries without meaning", Literal["refuse", "keep"]),
    "dry_run": Parameter("nothing changes: the answer says what would", bool),
}


Entries = list[dict[str, Any]]


class DefinitionsDocument(TypedDict, total=False):
    """What is declared: of one vhost, or everything."""

    rabbit_version: str
    rabbitmq_version: str
    product_name: str
    product_version: str
    users: Entries
    vhosts: Entries
    permissions: Entries
    topic_permissions: Entries
    parameters: Entries
    global_parameters: Entries
    policies: Entries
    queues: Entries
    exchanges: Entries
    bindings: Entries


class PlannedEntry(msgspec.Struct):
    """What would become of an entry."""

    what: str
    kind: str
    vhost: str
    name: str
    reason: str


class ImportAnswer(msgspec.Struct, kw_only=True):
    """Entries that have no effect here, in words; of a dry run, what would become of all."""

    kept_without_effect: list[str] | msgspec.UnsetType = msgspec.UNSET
    counts: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    entries: list[PlannedEntry] | msgspec.UnsetType = msgspec.UNSET


class VhostBody(msgspec.Struct):
    """What is said of a vhost; what is left out stays as it is."""

    description: str | None = None
    tags: list[str] | str | None = None
    default_queue_type: str | None = None
    tracing: bool | None = None


@lists(VhostRow, STATISTICS, has_pages=True)
async def list_vhosts(call: Call) -> Answer:
    """The vhosts that the caller knows."""
    others = await other_vhosts(call)
    vhosts = [each for each in call.broker.vhosts.all() if call.caller.knows(each.name)]
    replicas, statistics = call.broker.cluster.replicas(), call.statistics()

    def described(vhost: VirtualHost) -> VhostRow:
        own = statistics.messages(vhost.counters.channels)
        counts = statistics.sampled_lengths(vhost) | added(own, others.get(vhost.name, {}))
        return vhost_row(vhost, replicas, counts)

    return Listing(
        vhosts,
        described,
        lambda vhost: str(vhost.name),
        lambda vhost: (vhost.name,),
    )


def vhost_row(vhost: VirtualHost, replicas: Sequence[ReplicaState], counts: Row) -> VhostRow:
    """A vhost as RabbitMQ shows it, with counts of messages."""
    said: Row = dict(described_vhost(vhost.record))
    said["default_queue_type"] = vhost.record.default_queue_type or "undefined"
    return VhostRow(
        **said,
        tracing=vhost.firehose is not None,
        cluster_state={each.name: "running" for each in replicas if each.is_running},
        **counts,
    )


@answers(VhostRow, query=STATISTICS)
async def get_vhost(call: Call) -> Answer:
    """A vhost, with counts of its messages."""
    ready, unacked = await counted_messages([call.vhost])
    statistics = call.statistics()
    counts = statistics.lengths([call.vhost.counters], ready, unacked)
    own, others = statistics.messages(call.vhost.counters.channels), await other_vhosts(call)
    counts |= added(own, others.get(call.vhost.name, {}))
    return Value(vhost_row(call.vhost, call.broker.cluster.replicas(), counts))


async def counted_messages(vhosts: list[VirtualHost]) -> tuple[int, int]:
    """How many messages are ready, and how many unacknowledged."""
    ready = unacked = 0
    for vhost in vhosts:
        async for some in in_turns(slices(vhost.queues.values(), SLICE_ITEMS), Lane.OPERATORS):
            ready += sum(queue.ready for queue in some)
            unacked += sum(queue.unacked for queue in some)
    return ready, unacked


@puts(VhostBody)
async def put_vhost(call: Call) -> Answer:
    """Make a vhost, and let who makes it in; or say something else of one."""
    body = await call.body(VhostBody)
    name, vhosts = call.path("name"), call.broker.vhosts
    known = {vhost.name: vhost.record for vhost in vhosts.all()}
    said: dict[str, Any] = {}
    if body.description is not None:
        said["description"] = body.description
    if body.tags is not None:
        said["tags"] = split_tags(body.tags)
    if body.default_queue_type is not None:
        said["default_queue_type"] = body.default_queue_type
    record = known.get(name, VhostRecord(name))
    await vhosts.put(msgspec.structs.replace(record, **said))
    if name not in known and call.caller.user is not None:
        await call.broker.users.set_permissions(call.caller.user, name, FULL_PERMISSION)
    if body.tracing is not None:
        call.broker.trace(vhosts.get(name), body.tracing)
    return put(name in known)


@changes()
async def delete_vhost(call: Call) -> Answer:
    """Delete a vhost with all that is in it; connections to it are closed."""
    name = call.path("name")
    if name not in {vhost.name for vhost in call.broker.vhosts.all()}:
        raise not_found("vhost", name)
    await call.broker.vhosts.delete(name)
    return Empty()


# -- definitions


@answers(DefinitionsDocument, query=DOWNLOAD)
def get_definitions(call: Call) -> Answer:
    """Everything, as one document."""
    broker = call.broker
    pieces = exported_definitions(
        broker.vhosts.all(), broker.users, broker.parameters, _header(call)
    )
    return Pieces(pieces, call.query.get("download", ""))


@answers(DefinitionsDocument, query=DOWNLOAD)
def get_definitions_of_vhost(call: Call) -> Answer:
    """What is in a vhost, as one document."""
    pieces = exported_definitions([call.vhost], None, None, _header(call))
    return Pieces(pieces, call.query.get("download", ""))


def _header(call: Call) -> Row:
    version = call.broker.node.version
    return {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "RouteLog",
        "product_version": version,
    }


@answers(ImportAnswer, body=DefinitionsDocument, query=IMPORT, statuses=(200, 204), takes_form=True)
async def post_definitions(call: Call) -> Answer:
    """Import a document: all of it, or nothing when an entry cannot be."""
    return await _import(call, None)


@answers(ImportAnswer, body=DefinitionsDocument, query=IMPORT, statuses=(200, 204), takes_form=True)
async def post_definitions_of_vhost(call: Call) -> Answer:
    """Import what is for a vhost into it."""
    return await _import(call, call.vhost.name)


async def _import(call: Call, vhost: str | None) -> Answer:
    unknown = call.query.get("unknown", "refuse")
    if unknown not in ("refuse", "keep"):
        raise bad_request("unknown: expected refuse or keep")
    document = await call.document(bytes_max=DEFINITIONS_BYTES_MAX)
    definitions = await read_definitions_in_turns(document, vhost, keep_unknown=unknown == "keep")
    broker = call.broker
    if call.flag("dry_run"):
        return await _planned(call, definitions)
    await DefinitionsImport(broker.vhosts, broker.users, broker.parameters).run(definitions)
    kept = definitions.without_effect
    return Value(ImportAnswer(kept_without_effect=kept)) if kept else Empty()


async def _planned(call: Call, definitions: Definitions) -> Answer:
    broker = call.broker
    plan = await planned_import(definitions, broker.vhosts, broker.users, broker.parameters)
    return Value(
        ImportAnswer(
            counts=plan.counts,
            entries=[
                PlannedEntry(each.verdict, each.kind, each.vhost, each.name, each.reason)
                for each in plan.entries
            ],
            kept_without_effect=plan.without_effect,
        )
    )
