"""Rows of "what a peer does wrong, and what it is told", and how a row is tried."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
from pamqp import commands
from scenarios.clients.bystander import Bystander
from scenarios.clients.raw_client import Outcome, RawClient, message
from support.broker_process import BrokerProcess, ForeignBroker

Broker = BrokerProcess | ForeignBroker


class Peer(RawClient):
    """An open connection with channel 1 open, about to misbehave.

    Invariant: a mistake that costs the connection must not have made anything called `name`.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.name = f"bad.{uuid.uuid4().hex}"

    @cached_property
    def queue(self) -> str:
        """An exclusive queue of this connection."""
        return self.declare(f"{self.name}.queue")

    def do(self, *values: Any, channel: int = 1) -> None:
        """Send methods on the channel without waiting for anything."""
        for value in values:
            self.send(value, channel)


@dataclass(frozen=True)
class Row:
    """An input, and the scope and code it leads to.

    `rabbit` says why RabbitMQ 3.10 is not asked ("": it is); `channel` is where the input goes.
    """

    claim: str
    act: Callable[[Any], Any]
    scope: str
    code: int = 0
    text: str = ""
    rabbit: str = ""
    channel: int = 1


def each(rows: Sequence[Row]) -> pytest.MarkDecorator:
    """Parametrise a test over rows; the claims are the identifiers."""
    return pytest.mark.parametrize("row", [_parameter(row) for row in rows])


def assert_row_holds(broker: Broker, bystander: Bystander, row: Row) -> None:
    """Try a row on a new connection; afterwards nobody else may have noticed."""
    with Peer(broker.host, broker.port) as peer:
        peer.open()
        peer.open_channel()
        row.act(peer)
        assert_outcome(row, peer.outcome(row.channel))
        name = peer.name
    assert_nobody_noticed(broker, bystander)
    if row.scope == "connection":
        assert_nothing_made(broker, name)
    delete(broker, name)


def assert_outcome(row: Row, outcome: Outcome) -> None:
    """Compare scope, code and text."""
    assert (outcome.scope, outcome.code) == (row.scope, row.code), outcome
    assert row.text in outcome.text, outcome


def assert_nobody_noticed(broker: Broker, bystander: Bystander) -> None:
    """The bystander goes on, and a newcomer is served."""
    bystander.assert_undisturbed()
    assert "an error of the broker" not in broker.log_text(), "a peer's mistake was called ours"
    with RawClient(broker.host, broker.port) as newcomer:
        newcomer.open()
        newcomer.open_channel()
        queue = newcomer.declare()
        newcomer.send_bytes(message(queue, b"welcome"))
        assert newcomer.get(queue) == b"welcome"


def assert_nothing_made(broker: Broker, queue: str) -> None:
    """The queue does not exist."""
    with RawClient(broker.host, broker.port) as client:
        client.open()
        client.open_channel()
        client.send(commands.Queue.Declare(queue=queue, passive=True), 1)
        assert client.outcome().code == 404


def delete(broker: Broker, queue: str) -> None:
    """Delete the queue if it exists."""
    with RawClient(broker.host, broker.port) as client:
        client.open()
        client.open_channel()
        client.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)


def _parameter(row: Row) -> Any:
    marks = [pytest.mark.differs_from_rabbitmq(row.rabbit)] if row.rabbit else []
    return pytest.param(row, id=row.claim.replace(" ", "-"), marks=marks)
