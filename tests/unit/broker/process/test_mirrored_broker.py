"""A node of a cluster before it follows; tests/simulation/fronts and tests/cluster have its life."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from routelog.amqp_front.server.front import AmqpFront
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.mirrored_broker import MirroredBroker
from routelog.log_backend import SystemClock


class Member:
    """A node that has to start again before it can follow."""

    name = "a@test"
    refusal = "nobody leads"

    def __init__(self) -> None:
        self.ended: list[str] = []

    def watch(self, changed: Callable[[], None]) -> None: ...

    async def start(self, *parts: object) -> bool:
        return False

    def end(self, reason: str) -> None:
        self.ended.append(reason)


async def test_a_node_that_has_to_start_again_begins_nothing(tmp_path: Path) -> None:
    member, config = Member(), BrokerConfig(data_dir=tmp_path)
    front = AmqpFront(config, member.name, SystemClock())
    broker = MirroredBroker(config, front, cast(Any, member))
    assert await broker.follow() is None
    assert not hasattr(broker, "services")
    assert not hasattr(broker, "listeners")
    broker.go_on()  # nothing is loaded
    assert not broker.takes_clients
    broker.store.logs.on_failure(OSError("the disk is gone"))
    assert member.ended == ["the disk is gone"]
    await broker.store.aclose()
    logging.getLogger().removeHandler(broker.recent_log)
