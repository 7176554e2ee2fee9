"""Arguments of queues that cannot be: the channel ends with 406, and no queue comes of it."""

from __future__ import annotations

from typing import Any

from pamqp import commands
from scenarios.clients.bad_input import (
    Broker,
    Peer,
    Row,
    assert_nothing_made,
    assert_row_holds,
    each,
)
from scenarios.clients.bystander import Bystander

Queue = commands.Queue

REFUSED = "PRECONDITION_FAILED - invalid arg"
KEEPS = "takes any value"
CRASHES = "closes the connection with 541"


def declares(**arguments: Any):
    """Declare a durable queue named as nothing that a mistake makes may be, with these arguments."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return lambda peer: peer.do(Queue.Declare(queue=peer.name, durable=True, arguments=named))


def refused(argument: str, value: Any, rabbit: str = "") -> Row:
    """The row of one argument."""
    act = declares(**{argument: value})
    return Row(f"{argument} {value!r}", act, "channel", 406, argument, rabbit=rabbit)


LIMITS = ("x-message-ttl", "x-max-length", "x-max-length-bytes")

ROWS = [
    *(refused(argument, value) for argument in LIMITS for value in ("many", -1)),
    refused("x-expires", 0),
    refused("x-expires", "soon"),
    refused("x-max-priority", 256),
    refused("x-max-priority", -1),
    refused("x-max-priority", "high"),
    refused("x-overflow", "spill"),
    refused("x-overflow", 1),
    refused("x-dead-letter-exchange", 1),
    refused("x-dead-letter-routing-key", 1),
    Row(
        "x-dead-letter-routing-key without an exchange",
        declares(**{"x-dead-letter-routing-key": "k"}),
        *("channel", 406, "x-dead-letter-routing-key"),
    ),
    refused("x-single-active-consumer", "yes"),
    refused("x-queue-type", "odd", CRASHES),
    refused("x-delivery-limit", "often", KEEPS),
    refused("x-dead-letter-strategy", "twice", KEEPS),
    refused("x-delayed-retry-type", "sometimes", KEEPS),
    refused("x-delayed-retry-min", 0, KEEPS),
    refused("x-consumer-timeout", -1, KEEPS),
    refused("x-durability", "some", KEEPS),
    refused("x-partitions", 0, KEEPS),
    refused("x-partitions", 100_000, KEEPS),
    refused("x-retention", "a while", KEEPS),
    refused("x-compression", "zip", KEEPS),
    refused("x-message-deduplication", "yes", KEEPS),
]


@each(ROWS)
def test_an_argument_that_cannot_be_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    made: list[str] = []

    def act(peer: Peer) -> None:
        made.append(peer.name)
        row.act(peer)

    assert_row_holds(broker, bystander, Row(row.claim, act, row.scope, row.code, row.text))
    assert_nothing_made(broker, made[0])
