"""Bindings: by vhost, by both ends, and one by its key."""

import hashlib
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import msgspec

from routelog.exchanges import DEFAULT_EXCHANGE, Binding
from routelog.management.calls.answer import Answer, Empty, Listing, Value
from routelog.management.calls.call import Call
from routelog.management.calls.failures import not_found
from routelog.management.calls.operation import answers, changes, lists
from routelog.management.shapes.exchange import BindingRow
from routelog.vhosts import ResourceKind, Verb, VirtualHost, checked_arguments, plain_arguments

DEFAULT_NAME = "amq.default"  # what a path calls the exchange named ""


class BindingBody(msgspec.Struct):
    """What a binding is made with."""

    routing_key: str = ""
    arguments: dict[str, Any] = {}


def binding_row(vhost: str, binding: Binding) -> BindingRow:
    """A binding as RabbitMQ shows it."""
    return BindingRow(
        source=binding.source,
        vhost=vhost,
        destination=binding.destination,
        destination_type=binding.destination_kind,
        routing_key=binding.routing_key,
        arguments=plain_arguments(binding.arguments),
        properties_key=properties_key(binding),
    )


def properties_key(binding: Binding) -> str:
    """What tells a binding from others between the same ends; safe in a path."""
    key = quote(binding.routing_key, safe="")
    if not binding.arguments:
        return key or "~"
    arguments = msgspec.json.encode(plain_arguments(binding.arguments), order="deterministic")
    return f"{key}~{hashlib.sha256(arguments).hexdigest()[:12]}"


@lists(BindingRow)
def list_bindings(call: Call) -> Answer:
    """The bindings of the vhosts that the caller sees."""
    return _listing(call.seen_vhosts())


@lists(BindingRow)
def list_bindings_of_vhost(call: Call) -> Answer:
    """The bindings of a vhost."""
    return _listing([call.vhost])


def _listing(vhosts: list[VirtualHost]) -> Listing:
    items = (
        (vhost.name, binding)
        for vhost in vhosts
        for exchange in vhost.routing.exchanges()
        for binding in bindings_from(vhost, exchange.name)
    )
    return Listing(items, lambda item: binding_row(*item))


def bindings_from(vhost: VirtualHost, exchange: str) -> Iterable[Binding]:
    """The bindings that leave from an exchange; those of the default exchange are made one by one."""
    if exchange == DEFAULT_EXCHANGE:
        return (Binding(exchange, name, "queue", name) for name in vhost.queues)
    return vhost.routing.bindings_from(exchange) if vhost.routing.has_exchange(exchange) else ()


@lists(BindingRow)
def list_bindings_between(call: Call) -> Answer:
    """The bindings from an exchange to a queue or exchange."""
    found = _between(call)
    return Listing(found, lambda binding: binding_row(call.vhost.name, binding))


@answers(BindingRow)
def get_binding(call: Call) -> Answer:
    """One binding."""
    return Value(binding_row(call.vhost.name, _binding(call)))


@changes(BindingBody, statuses=(201,))
async def post_binding(call: Call) -> Answer:
    """Bind a queue or an exchange to an exchange."""
    body = await call.body(BindingBody)
    arguments = checked_arguments(body.arguments)
    source, kind, destination = _ends(call)
    binding = Binding(source, destination, kind, body.routing_key, arguments)
    _authorize(call, binding)
    done = call.vhost.restore_binding(binding)
    if done is not None:
        await done
    # Both parts once more in percent: clients take the key out of it, and that is encoded itself.
    return Empty(201, f"{quote_plus(destination)}/{quote_plus(properties_key(binding))}")


@changes()
async def delete_binding(call: Call) -> Answer:
    """Remove one binding."""
    binding = _binding(call)
    _authorize(call, binding)
    done = call.vhost.unbind(binding)
    if done is not None:
        await done
    return Empty()


def _authorize(call: Call, binding: Binding) -> None:
    vhost, caller = call.vhost, call.caller
    if binding.destination_kind == "queue":
        kind = ResourceKind.QUEUE
        if binding.destination in vhost.queues:
            vhost.queues[binding.destination].check_access(call)
    else:
        kind = ResourceKind.EXCHANGE
    caller.authorize(vhost.name, kind, binding.destination, Verb.WRITE)
    caller.authorize(vhost.name, ResourceKind.EXCHANGE, binding.source, Verb.READ)
    if vhost.routing.routes_by_topic(binding.source):
        caller.authorize_topic(vhost.name, binding.source, Verb.READ, binding.routing_key)


def _ends(call: Call) -> tuple[str, Any, str]:
    kind = "queue" if call.path("kind") == "q" else "exchange"
    return exchange_name(call.path("source")), kind, call.path("destination")


def _between(call: Call) -> list[Binding]:
    source, kind, destination = _ends(call)
    routing = call.vhost.routing
    if not routing.has_exchange(source):
        raise not_found("exchange", source, call.vhost.name)
    if kind == "queue":
        if not routing.has_queue(destination):
            raise not_found("queue", destination, call.vhost.name)
        found = routing.bindings_to_queue(destination)
    else:
        if not routing.has_exchange(destination):
            raise not_found("exchange", destination, call.vhost.name)
        found = routing.bindings_to_exchange(destination)
    return [binding for binding in found if binding.source == source]


def _binding(call: Call) -> Binding:
    wanted = call.path("properties")
    for binding in _between(call):
        key = properties_key(binding)
        if wanted in (key, unquote(key)):
            return binding
    raise not_found("binding", wanted, call.vhost.name)


def exchange_name(name: str) -> str:
    """The name that a path means."""
    return DEFAULT_EXCHANGE if name == DEFAULT_NAME else name
