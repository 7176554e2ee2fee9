"""The door where the process that has the data takes the sessions of the others."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until

from routelog.broker.sessions.process_door import LeadingProcess, ProcessDoor, door_path
from routelog.log_backend import Octets
from routelog.vhosts import SESSION_VERSION, SessionKind, SessionMessage, session_message_pieces

NOBODY: Any = None


class House:
    """A door, and who was taken there: names, and what came with the introduction."""

    def __init__(self, data: Path) -> None:
        self.path = door_path(data)
        self.taken: list[tuple[str, asyncio.Transport, bytes]] = []
        self.door = ProcessDoor(self.path, ("n/2", "n/3"), lambda *each: self.taken.append(each))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    await house.door.open()
    yield house
    house.door.close()
    for _, transport, _ in house.taken:
        transport.abort()


def opening(name: str = "n/2", version: int = SESSION_VERSION) -> bytes:
    """What a front says first."""
    return joined(SessionMessage(SessionKind.OPEN, number=version, content=name.encode()))


def joined(message: SessionMessage) -> bytes:
    """The bytes of a message."""
    pieces: list[Octets] = session_message_pieces(message)
    return b"".join(pieces)


async def test_a_front_finds_the_process_that_has_the_data(house: House) -> None:
    leading = LeadingProcess(house.path, "n/1", "n/3", NOBODY)
    transports: list[asyncio.Transport] = []
    assert leading.leader.node == "n/1"
    await leading.connect_session(leading.leader, lambda transport, _: transports.append(transport))
    await until(lambda: house.taken)
    ((name, transport, unread),) = house.taken
    assert (name, unread) == ("n/3", b"")
    assert not transport.is_reading()
    assert not transports[0].is_reading()
    transports[0].abort()


async def test_only_its_user_may_open_it(house: House) -> None:
    assert stat.S_IMODE(os.stat(house.path).st_mode) == 0o600


async def test_a_door_that_was_left_is_replaced(tmp_path: Path) -> None:
    first, second = House(tmp_path), House(tmp_path)
    await first.door.open()
    await second.door.open()
    _, writer = await asyncio.open_unix_connection(str(second.path))
    writer.write(opening())
    await until(lambda: second.taken)
    assert not first.taken
    writer.close()
    second.door.close()
    assert not second.path.exists()
    first.door.close()


async def test_an_introduction_comes_in_pieces_with_what_follows(house: House) -> None:
    _, writer = await asyncio.open_unix_connection(str(house.path))
    sent = opening() + b"more"
    for at in range(len(sent) - 5):
        writer.write(sent[at : at + 1])
        await writer.drain()
    assert not house.taken
    writer.write(sent[-5:])
    await until(lambda: house.taken)
    assert house.taken[0][::2] == ("n/2", b"more")
    writer.close()


@pytest.mark.parametrize(
    "said",
    [
        opening("n/4"),
        opening("\udcff".encode("utf-8", "surrogatepass").decode("latin-1")),
        opening(version=SESSION_VERSION + 1),
        joined(SessionMessage(SessionKind.BEAT)),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 8,
    ],
)
async def test_who_is_no_process_of_the_node_is_not_let_in(house: House, said: bytes) -> None:
    reader, writer = await asyncio.open_unix_connection(str(house.path))
    writer.write(said)
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    assert not house.taken
    writer.close()


async def test_who_says_nothing_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routelog.broker.sessions.process_door.OPEN_SECONDS_MAX", 0.01)
    house = House(tmp_path)
    await house.door.open()
    reader, writer = await asyncio.open_unix_connection(str(house.path))
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()
    house.door.close()
