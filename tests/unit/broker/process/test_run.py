"""The end of a node of a cluster: nothing keeps the process from starting again."""

import asyncio
from contextlib import nullcontext
from typing import Any, cast

import pytest

from routelog.broker.process import run


class HungBroker:
    """A broker whose clients, or whose disk, it would wait for."""

    def __init__(self, mirror: object) -> None:
        self.mirror = mirror

    async def follow(self) -> object:
        return "address"

    def suspend(self) -> None: ...

    async def lead(self, epoch: int) -> None:
        raise AssertionError("nobody leads")

    async def leave(self, reason: str) -> None:
        await asyncio.Event().wait()


class DeposedMirror:
    """A node that has to start again."""

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self.ended.set_result("another node leads")
        self.is_closed = False
        self.starts_again = False

    async def aclose(self) -> None:
        self.is_closed = True

    async def part(self, *, starts_again: bool) -> None:
        self.starts_again = starts_again


async def test_the_clusters_node_is_closed_whatever_the_broker_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "END_SECONDS_MAX", 0.01)
    monkeypatch.setattr(run, "RESTART_SECONDS_MIN", 0.0)
    mirror = DeposedMirror()
    reason = await run._run_mirrored(
        cast(Any, HungBroker(mirror)),
        lambda broker, address: nullcontext(),
        lambda broker, address: nullcontext(),
        lambda address: None,
        asyncio.Event(),
    )
    assert reason == "another node leads"
    assert mirror.is_closed
    assert mirror.starts_again
