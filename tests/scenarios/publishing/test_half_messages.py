"""Half messages: a message is delivered if, and only if, its transaction was committed, whoever is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pika
import pytest
from half_messages import ORDERS
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import AMQPError
from scenarios.publishing.half_message_producer import (
    POINTS,
    open_database,
    order,
    outbox_of_aio_pika,
    outbox_of_pika,
)
from support.broker_process import ROOT, BrokerProcess
from support.pika_client import drain
from support.waiting import WAIT_SECONDS

pytestmark = [pytest.mark.differs_from_rabbitmq("delayed messages and deduplication are plugins")]

PRODUCER = Path(__file__).with_name("half_message_producer.py")
IN_DATABASE = {
    "before": ["first"],
    "prepared": ["first"],
    "in the transaction": ["first"],
    "committed": ["first", "second"],
    "published": ["first", "second"],
}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a queue of the messages that are delivered."""
    started = BrokerProcess(tmp_path_factory.mktemp("half") / "data").start()
    with connect(started) as connection:
        outbox_of_pika(connection, open_database(":memory:"))
        channel = connection.channel()
        channel.queue_declare("delivered", durable=True)
        channel.queue_bind("delivered", ORDERS)
    yield started
    started.stop()


@pytest.fixture
def database(tmp_path: Path) -> sqlite3.Connection:
    return open_database(tmp_path / "orders.db")


def connect(process: BrokerProcess) -> BlockingConnection:
    return BlockingConnection(pika.URLParameters(process.url))


def in_database(database: sqlite3.Connection) -> list[str]:
    return [item for (item,) in database.execute("SELECT item FROM orders ORDER BY item")]


def delivered(process: BrokerProcess) -> list[str]:
    with connect(process) as connection:
        return sorted(body.decode() for body in drain(connection.channel(), "delivered"))


def check_by_pika(process: BrokerProcess, database: sqlite3.Connection, count: int) -> None:
    with connect(process) as connection:
        checks = outbox_of_pika(connection, database).checks()
        for _ in range(count):
            next(checks)


async def check_by_aio_pika(
    process: BrokerProcess, database: sqlite3.Connection, count: int
) -> None:
    async with await aio_pika.connect(process.url) as connection:
        checks = (await outbox_of_aio_pika(connection, database)).checks()
        for _ in range(count):
            await anext(checks)
        await checks.aclose()


def then(do: Callable[..., Any], also: Callable[[], object]) -> Callable[..., Any]:
    """Does something, and then something else, too."""

    def done(*arguments: object) -> Any:
        answer = do(*arguments)
        also()
        return answer

    return done


@pytest.mark.parametrize("library", ["pika", "aio-pika"])
@pytest.mark.parametrize("point", POINTS)
def test_producer_is_killed(
    process: BrokerProcess, tmp_path: Path, library: str, point: str
) -> None:
    file = tmp_path / "orders.db"
    command = [sys.executable, str(PRODUCER), process.url, str(file), library, point]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "docs" / "examples")}
    ended = subprocess.run(command, env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    database = open_database(file)
    prepared = 1 if point == "before" else 2
    if library == "pika":
        check_by_pika(process, database, prepared)
    else:
        asyncio.run(check_by_aio_pika(process, database, prepared))
    assert in_database(database) == delivered(process) == IN_DATABASE[point]


@pytest.mark.parametrize("point", ["prepared", "committed"])
def test_broker_is_killed_before_the_message_is_published(
    process: BrokerProcess, database: sqlite3.Connection, point: str
) -> None:
    outbox: Any = outbox_of_pika(connect(process), database)
    if point == "prepared":
        outbox._prepare = then(outbox._prepare, process.kill)
    else:
        outbox._decisions.commit = then(outbox._decisions.commit, process.kill)
    outbox.send(b"order", order("order"))
    process.start()
    assert delivered(process) == []
    check_by_pika(process, database, 1)
    assert in_database(database) == delivered(process) == ["order"]


def test_broker_is_killed_between_the_message_and_the_ack_of_its_check(
    process: BrokerProcess, database: sqlite3.Connection
) -> None:
    outbox: Any = outbox_of_pika(connect(process), database)
    outbox._publish = then(outbox._publish, process.kill)
    outbox.send(b"order", order("order"))
    process.start()
    checking: Any = outbox_of_pika(connect(process), database)
    checking._publish = then(checking._publish, process.kill)
    with pytest.raises(AMQPError):
        for _ in checking.checks():
            pass
    process.start()
    check_by_pika(process, database, 1)
    assert in_database(database) == delivered(process) == ["order"]


def test_transaction_that_a_check_overtakes_is_rolled_back(
    process: BrokerProcess, database: sqlite3.Connection, tmp_path: Path
) -> None:
    def check() -> None:
        check_by_pika(process, open_database(tmp_path / "orders.db"), 1)

    def slow_business(database: sqlite3.Connection) -> None:
        checking.start()
        checking.join(WAIT_SECONDS)
        order("late")(database)

    checking = threading.Thread(target=check)
    with pytest.raises(sqlite3.IntegrityError):
        outbox_of_pika(connect(process), database).send(b"late", slow_business)
    assert not checking.is_alive()
    assert in_database(database) == delivered(process) == []
