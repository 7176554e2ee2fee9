"""Exchanges: what there is to say of them, and what operators do with them."""

from base64 import b64decode
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from routelog.exchanges import DELAYED_TYPE, Exchange, Message
from routelog.management.calls.answer import Answer, Empty, Listing, Row, Value, put
from routelog.management.calls.call import DISABLE_STATS, STATISTICS, Call, converted
from routelog.management.calls.failures import Refused, bad_request, not_found, refused
from routelog.management.calls.operation import Parameter, answers, changes, lists, puts
from routelog.management.calls.other_statistics import added, other_exchanges
from routelog.management.shapes.exchange import (
    BindingRow,
    ExchangeRow,
    OneExchange,
    PublishedBatch,
    Routed,
    TriedRoute,
)
from routelog.management.views.bindings import binding_row, bindings_from, exchange_name
from routelog.management.views.flows import flows_of_exchange
from routelog.management.views.route_way import way_of
from routelog.vhosts import (
    AccessRefused,
    ResourceKind,
    Verb,
    VirtualHost,
    checked_arguments,
    plain_arguments,
)

INTERNAL_USER = "rmq-internal"  # RabbitMQ's name for what it did by itself
NOTHING: Row = {}
BATCH_BYTES_MAX = 16 * 1024 * 1024
BATCH_MESSAGES_MAX = 10_000  # checked in about a second of the loop's time, in turns
ROUTE_QUEUES_MAX = 1_000  # named, of a route that is tried out


class ExchangeBody(msgspec.Struct):
    """What an exchange is declared with."""

    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = {}


class PublishBody(msgspec.Struct):
    """A message."""

    properties: dict[str, Any]
    routing_key: str
    payload: str
    payload_encoding: Literal["string", "base64"]


@lists(ExchangeRow, STATISTICS | DISABLE_STATS, has_pages=True)
async def list_exchanges(call: Call) -> Answer:
    """The exchanges of the vhosts that the caller sees."""
    return await _listing(call, call.seen_vhosts())


@lists(ExchangeRow, STATISTICS | DISABLE_STATS, has_pages=True)
async def list_exchanges_of_vhost(call: Call) -> Answer:
    """The exchanges of a vhost."""
    return await _listing(call, [call.vhost])


async def _listing(call: Call, vhosts: list[VirtualHost]) -> Listing:
    described = await _described(call)
    items = ((vhost, exchange) for vhost in vhosts for exchange in vhost.routing.exchanges())
    return Listing(
        items,
        lambda item: described(*item),
        lambda item: str(item[1].name),
        lambda item: (item[0].name, item[1].name),
    )


async def _described(call: Call) -> Callable[[VirtualHost, Exchange], ExchangeRow]:
    statistics = call.statistics()
    if call.flag("disable_stats"):
        return exchange_row
    others = await other_exchanges(call)

    def described(vhost: VirtualHost, exchange: Exchange) -> ExchangeRow:
        own = statistics.messages(vhost.counters.exchanges.get(exchange.name))
        there = others.get((vhost.name, exchange.name), NOTHING)
        return exchange_row(vhost, exchange, added(own, there))

    return described


def exchange_row(vhost: VirtualHost, exchange: Exchange, statistics: Row = NOTHING) -> ExchangeRow:
    """An exchange as RabbitMQ shows it."""
    held = vhost.hosted.delays.held(exchange.name) if exchange.type == DELAYED_TYPE else None
    return ExchangeRow(
        name=exchange.name,
        vhost=vhost.name,
        type=exchange.type,
        durable=exchange.durable,
        auto_delete=exchange.auto_delete,
        internal=exchange.internal,
        arguments=plain_arguments(exchange.arguments),
        policy=vhost.routing.policy_of(exchange.name),
        user_who_performed_action=exchange.user or INTERNAL_USER,
        messages_delayed=msgspec.UNSET if held is None else held.count,
        **statistics,
    )


@answers(OneExchange, query=STATISTICS | DISABLE_STATS)
async def get_exchange(call: Call) -> Answer:
    """An exchange, with where its messages come from and go to."""
    exchange = _exchange(call)
    row = (await _described(call))(call.vhost, exchange)
    if call.flag("disable_stats"):
        return Value(row)
    flows = await flows_of_exchange(call, exchange.name)
    return Value(OneExchange(**msgspec.structs.asdict(row), **flows))


@puts(ExchangeBody)
async def put_exchange(call: Call) -> Answer:
    """Declare an exchange."""
    body = await call.body(ExchangeBody)
    name, vhost = exchange_name(call.path("name")), call.vhost
    await vhost.until_free("exchange", name)
    call.on_body()  # it may have been long
    call.caller.authorize(vhost.name, ResourceKind.EXCHANGE, name, Verb.CONFIGURE)
    for argument in ("alternate-exchange", "x-alternate-exchange"):
        alternate = body.arguments.get(argument)
        if isinstance(alternate, str):
            call.caller.authorize(vhost.name, ResourceKind.EXCHANGE, name, Verb.READ)
            call.caller.authorize(vhost.name, ResourceKind.EXCHANGE, alternate, Verb.WRITE)
    existed = vhost.routing.has_exchange(name)
    arguments = checked_arguments(body.arguments)
    exchange = Exchange(name, body.type, body.durable, body.auto_delete, body.internal, arguments)
    done = vhost.declare_exchange(exchange)
    if done is not None:
        await done
    return put(existed)


@changes(query={"if-unused": Parameter("not while something is bound to it", bool)})
async def delete_exchange(call: Call) -> Answer:
    """Delete an exchange with its bindings, also one that was imported without effect."""
    name = call.path("name")
    if call.vhost.kept.has_exchange(name) and not call.vhost.routing.has_exchange(name):
        call.caller.authorize(call.vhost.name, ResourceKind.EXCHANGE, name, Verb.CONFIGURE)
        await call.vhost.kept.delete_exchange(name)
        return Empty()
    exchange = _exchange(call)
    call.caller.authorize(call.vhost.name, ResourceKind.EXCHANGE, exchange.name, Verb.CONFIGURE)
    done = call.vhost.delete_exchange(exchange.name, if_unused=call.flag("if-unused"))
    if done is not None:
        await done
    return Empty()


@lists(BindingRow)
def list_bindings_from(call: Call) -> Answer:
    """The bindings that leave from an exchange."""
    bindings = bindings_from(call.vhost, _exchange(call).name)
    return Listing(bindings, lambda binding: binding_row(call.vhost.name, binding))


@lists(BindingRow)
def list_bindings_to(call: Call) -> Answer:
    """The bindings that lead to an exchange."""
    bindings = call.vhost.routing.bindings_to_exchange(_exchange(call).name)
    return Listing(bindings, lambda binding: binding_row(call.vhost.name, binding))


@answers(Routed, body=PublishBody)
async def publish(call: Call) -> Answer:
    """Publish one message and wait for its confirm: for trying out, not for work."""
    name = _target(call)
    body = await call.body(PublishBody)
    routed = await call.broker.messages.publish(
        call.vhost, call.caller.user, name, body.routing_key, body.properties, _payload(body)
    )
    return Value(Routed(routed))


@answers(PublishedBatch, body=list[PublishBody], takes_lines=True)
async def publish_batch(call: Call) -> Answer:
    """Publish messages and wait for their confirms; when one cannot be, none is published."""
    refusals: tuple[type[Exception], ...] = (Refused, AccessRefused, *call.broker.messages.refusals)
    count = 0
    with call.broker.messages.batch(call.vhost, call.caller.user, _target(call)) as batch:
        async for element in call.elements(bytes_max=BATCH_BYTES_MAX, received=batch.receive):
            if count == BATCH_MESSAGES_MAX:
                raise Refused(413, "payload_too_large", f"more than {BATCH_MESSAGES_MAX} messages")
            try:
                body = converted(element, PublishBody)
                batch.add(body.routing_key, body.properties, _payload(body))
            except refusals as error:
                known = refused(error) or bad_request(str(error))
                where = f"element {count}: {known.reason}"
                raise Refused(known.status, known.error, where) from None
            count += 1
        outcome = await batch.publish()
    return Value(PublishedBatch(outcome.confirmed, list(outcome.unroutable), list(outcome.refused)))


def _target(call: Call) -> str:
    name = exchange_name(call.path("name"))
    # RabbitMQ's channel is closed with 404, and this is 400
    if not call.vhost.routing.has_exchange(name):
        where = f"no exchange '{name}' in vhost '{call.vhost.name}'"
        raise bad_request(f"404 NOT_FOUND - {where}")
    return name


def _payload(body: PublishBody) -> bytes:
    payload = body.payload.encode()
    if body.payload_encoding == "base64":
        try:
            return b64decode(payload, validate=True)
        except ValueError:
            raise bad_request("the payload is no base64") from None
    return payload


@answers(
    TriedRoute,
    query={
        "routing_key": Parameter("of the message"),
        "headers": Parameter("of the message, as a JSON object"),
    },
)
def try_route(call: Call) -> Answer:
    """The queues that a message would reach, by its `routing_key` and `headers`; nothing is published."""
    name = _exchange(call).name
    key = call.query.get("routing_key", "").encode(errors="replace")
    try:
        headers = msgspec.json.decode(call.query.get("headers") or "{}", type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise bad_request(f"headers: {error}") from None
    message = Message(checked_arguments(headers))
    route = call.vhost.routing.route(name, key, message)
    way = way_of(call.vhost, name, key, message, frozenset(route))
    bindings = [binding_row(call.vhost.name, each) for each in way]
    return Value(TriedRoute(list(route[:ROUTE_QUEUES_MAX]), len(route), bindings))


def _exchange(call: Call) -> Exchange:
    name = exchange_name(call.path("name"))
    if not call.vhost.routing.has_exchange(name):
        raise not_found("exchange", name, call.vhost.name)
    return call.vhost.routing.exchange(name)
