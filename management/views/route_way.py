"""The way of a message that is tried out: which bindings it goes along, from its exchange to its queues."""

from collections.abc import Collection

from routelog.exchanges import DEFAULT_EXCHANGE, EXCHANGE_TYPES, Binding, Message
from routelog.vhosts import VirtualHost

LOOKED_AT_MAX = 1_000  # bindings on the way: 3 ms
SHOWN_MAX = 200

# Types that choose among their bindings: the one on the way leads to a queue that is reached.
CHOOSING_TYPES = {"x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random"}


def way_of(
    vhost: VirtualHost, exchange: str, key: bytes, message: Message, reached: Collection[str]
) -> list[Binding]:
    """The bindings that match on the way from an exchange, those of exchanges in between included.

    Args:
        reached: the queues at the end of the way.
    """
    found: list[Binding] = []
    seen, pending, looked_at = {exchange}, [exchange], 0
    while pending and looked_at < LOOKED_AT_MAX and len(found) < SHOWN_MAX:
        name = pending.pop(0)
        if name == DEFAULT_EXCHANGE:
            found += [
                Binding(name, each, "queue", each) for each in reached if each == key.decode()
            ]
            continue
        bindings = vhost.routing.bindings_from(name)[: LOOKED_AT_MAX - looked_at]
        looked_at += len(bindings)
        matching = [each for each in bindings if _matches(vhost, each, key, message, reached)]
        found += matching
        following = [each.destination for each in matching if each.destination_kind == "exchange"]
        if not matching and (alternate := _alternate(vhost, name)):
            following = [alternate]
        for each in following:
            if each not in seen and vhost.routing.has_exchange(each):
                seen.add(each)
                pending.append(each)
    return found[:SHOWN_MAX]


def _matches(
    vhost: VirtualHost, binding: Binding, key: bytes, message: Message, reached: Collection[str]
) -> bool:
    exchange = vhost.routing.exchange(binding.source)
    if exchange.type in CHOOSING_TYPES:
        return binding.destination_kind == "queue" and binding.destination in reached
    index = EXCHANGE_TYPES[exchange.type](exchange)
    index.add(binding)
    return any(True for _ in index.match(key, message))


def _alternate(vhost: VirtualHost, name: str) -> str | None:
    if alternate := vhost.routing.exchange(name).alternate:
        return alternate
    policy = vhost.routing.policy_of(name)
    if policy is None:
        return None
    definition = vhost.policies.book.get(policy, operator=False).definition
    by_policy = definition.get("alternate-exchange")
    return by_policy if isinstance(by_policy, str) else None
