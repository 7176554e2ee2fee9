"""A client takes nothing of a channel that it is closing."""

import asyncio
from collections.abc import Awaitable, Callable
from unittest.mock import Mock

import pytest
from pamqp import body, commands, header
from pamqp import frame as pamqp_frame
from simulation.fronts.client import Client, Delivered

CLOSINGS = (
    (Client.close_channel, pamqp_frame.marshal(commands.Channel.CloseOk(), 1)),
    (Client.close, pamqp_frame.marshal(commands.Connection.CloseOk(), 0)),
)


def _delivery(tag: int) -> bytes:
    frames = (
        commands.Basic.Deliver("c", tag, False, "", "q"),
        header.ContentHeader(0, 1),
        body.ContentBody(b"1"),
    )
    return b"".join(pamqp_frame.marshal(each, 1) for each in frames)


@pytest.mark.parametrize(("close", "answer"), CLOSINGS)
async def test_what_was_on_its_way_at_the_close_is_discarded(
    close: Callable[[Client], Awaitable[None]], answer: bytes
) -> None:
    client, came = Client(pytest.fail), list[Delivered]()
    client.connection_made(Mock(asyncio.Transport))
    client.is_open, client.on_delivery = True, came.append
    client.data_received(_delivery(1))
    closing = asyncio.ensure_future(close(client))
    await asyncio.sleep(0)  # it has sent its close
    client.data_received(_delivery(2) + answer)
    await closing
    assert [each.tag for each in came] == [1]
