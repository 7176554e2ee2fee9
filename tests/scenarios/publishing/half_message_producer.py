"""Sends two half messages and is killed at a point of the second one: URL DATABASE LIBRARY POINT."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aio_pika
import half_messages
import half_messages_aio
import pika

CHECK_AFTER_SECONDS = 0.2
SECONDS_MAX = 30.0  # for another one that writes
POINTS = ("before", "prepared", "in the transaction", "committed", "published")


def open_database(file: Path | str) -> sqlite3.Connection:
    """The database, with a table for what the business does."""
    database = sqlite3.connect(file, timeout=SECONDS_MAX)
    with database:
        database.execute("CREATE TABLE IF NOT EXISTS orders (item TEXT)")
    return database


def order(item: str) -> half_messages.Business:
    """The business: it inserts an order."""
    return lambda database: database.execute("INSERT INTO orders VALUES (?)", [item])


def outbox_of_pika(
    connection: pika.BlockingConnection, database: sqlite3.Connection
) -> half_messages.Outbox:
    """An outbox whose checks come soon."""
    return half_messages.Outbox(connection, database, CHECK_AFTER_SECONDS)


async def outbox_of_aio_pika(
    connection: aio_pika.abc.AbstractConnection, database: sqlite3.Connection
) -> half_messages_aio.Outbox:
    """An outbox whose checks come soon."""
    outbox = half_messages_aio.Outbox(connection, database, CHECK_AFTER_SECONDS)
    await outbox.open()
    return outbox


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _then_die(do: Callable[..., Any]) -> Callable[..., Any]:
    async def wait_and_die(doing: Any) -> None:
        await doing
        _die()

    def done(*arguments: object) -> Any:
        doing = do(*arguments)
        return wait_and_die(doing) if inspect.isawaitable(doing) else _die()

    return done


def _doom(outbox: Any, point: str) -> half_messages.Business:
    """Have the outbox end this process at a point of the next message; gives the business to do."""
    match point:
        case "before":
            outbox._prepare = _die
        case "prepared":
            outbox._prepare = _then_die(outbox._prepare)
        case "in the transaction":
            return _then_die(order("second"))
        case "committed":
            outbox._decisions.commit = _then_die(outbox._decisions.commit)
        case "published":
            outbox._publish = _then_die(outbox._publish)
    return order("second")


def _send_by_pika(url: str, database: sqlite3.Connection, point: str) -> None:
    outbox = outbox_of_pika(pika.BlockingConnection(pika.URLParameters(url)), database)
    outbox.send(b"first", order("first"))
    outbox.send(b"second", _doom(outbox, point))


async def _send_by_aio_pika(url: str, database: sqlite3.Connection, point: str) -> None:
    outbox = await outbox_of_aio_pika(await aio_pika.connect(url), database)
    await outbox.send(b"first", order("first"))
    await outbox.send(b"second", _doom(outbox, point))


if __name__ == "__main__":
    _url, _file, _library, _point = sys.argv[1:]
    if _library == "pika":
        _send_by_pika(_url, open_database(_file), _point)
    else:
        asyncio.run(_send_by_aio_pika(_url, open_database(_file), _point))
