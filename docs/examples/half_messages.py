"""Send a message if, and only if, a database transaction commits: half messages, with pika and SQLite.

Copy it, and put your database's module in the place of sqlite3. docs/messaging/database.md explains it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pika
from pika.exceptions import AMQPError

CHECK_AFTER_SECONDS = 60.0  # a transaction that takes longer is rolled back by its check
CHECKS_MAX = 15  # of one message, while the database is away
REMEMBERED_MAX = 100_000  # more messages than are sent in the longest time until a check

ORDERS = "orders.placed"  # bind the queues of consumers to this exchange
PREPARED = "orders.prepared"
CHECKS = "orders.checks"
UNDECIDED = "orders.undecided"  # the queue of messages whose checks all failed

DELAYED: dict[str, Any] = {"x-delayed-type": "fanout"}
ONCE: dict[str, Any] = {"x-cache-size": REMEMBERED_MAX, "x-cache-persistence": "disk"}
CHECKED_AGAIN: dict[str, Any] = {
    "x-queue-type": "quorum",
    "x-delivery-limit": CHECKS_MAX,
    "x-delayed-retry-type": "all",
    "x-delayed-retry-min": 60_000,  # as long again after each check that failed
    "x-delayed-retry-max": CHECKS_MAX * 60_000,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": UNDECIDED,
}

Business = Callable[[sqlite3.Connection], object]


class Decisions:
    """Which transactions were committed, said by the database itself: the first to insert an id decides."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        with database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS sent (id TEXT PRIMARY KEY, rolled_back INTEGER)"
            )

    def commit(self, message_id: str, business: Business) -> None:
        """Do business and note the message, in one transaction.

        Raises:
            sqlite3.IntegrityError: a check came first, and the transaction is rolled back.
        """
        with self._database:
            business(self._database)
            self._database.execute("INSERT INTO sent VALUES (?, 0)", [message_id])

    def is_committed(self, message_id: str) -> bool:
        """Whether the message's transaction was committed; one that was not can no longer be.

        Raises:
            sqlite3.OperationalError: the database is away.
        """
        try:
            with self._database:
                self._database.execute("INSERT INTO sent VALUES (?, 1)", [message_id])
        except sqlite3.IntegrityError:
            row = self._database.execute("SELECT rolled_back FROM sent WHERE id = ?", [message_id])
            return bool(row.fetchone() == (0,))
        return False


class Outbox:
    """Sends messages with transactions, and checks those of programs that ended in between."""

    def __init__(
        self,
        connection: pika.BlockingConnection,
        database: sqlite3.Connection,
        check_after: float = CHECK_AFTER_SECONDS,
    ) -> None:
        self._decisions = Decisions(database)
        self._check_after_ms = int(check_after * 1_000)
        self._channel = connection.channel()
        self._channel.confirm_delivery()
        self._channel.basic_qos(prefetch_count=1)
        self._declare()

    def send(self, body: bytes, business: Business) -> None:
        """Do business in a transaction, and send `body` if it commits.

        Raises:
            sqlite3.IntegrityError: the transaction took longer than `check_after`, and is rolled back.
        """
        message_id = str(uuid.uuid4())
        self._prepare(message_id, body)
        self._decisions.commit(message_id, business)
        with contextlib.suppress(AMQPError):  # the check will send it
            self._publish(message_id, body)

    def checks(self) -> Iterator[str]:
        """Check messages when their time comes, and give the id of each that is decided."""
        for method, properties, body in self._channel.consume(CHECKS):
            try:
                committed = self._decisions.is_committed(properties.message_id)
            except sqlite3.OperationalError:
                self._channel.basic_nack(method.delivery_tag)  # it is asked again
                continue
            if committed:
                self._publish(properties.message_id, body)
            self._channel.basic_ack(method.delivery_tag)
            yield properties.message_id

    def _declare(self) -> None:
        channel = self._channel
        channel.exchange_declare(PREPARED, "x-delayed-message", durable=True, arguments=DELAYED)
        channel.exchange_declare(ORDERS, "x-message-deduplication", durable=True, arguments=ONCE)
        channel.queue_declare(UNDECIDED, durable=True)
        channel.queue_declare(CHECKS, durable=True, arguments=CHECKED_AGAIN)
        channel.queue_bind(CHECKS, PREPARED)

    def _prepare(self, message_id: str, body: bytes) -> None:
        self._channel.basic_publish(
            PREPARED, "", body, _properties(message_id, {"x-delay": self._check_after_ms})
        )

    def _publish(self, message_id: str, body: bytes) -> None:
        self._channel.basic_publish(
            ORDERS, "", body, _properties(message_id, {"x-deduplication-header": message_id})
        )


def _properties(message_id: str, headers: dict[str, object]) -> pika.BasicProperties:
    return pika.BasicProperties(message_id=message_id, headers=headers, delivery_mode=2)


def _demo() -> None:
    connection = pika.BlockingConnection()  # of guest at 127.0.0.1:5672
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (item TEXT, pieces INTEGER CHECK (pieces > 0))")
    outbox = Outbox(connection, database, check_after=1.0)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, ORDERS)

    def order(item: str, pieces: int) -> Business:
        row = (item, pieces)
        return lambda database: database.execute("INSERT INTO orders VALUES (?, ?)", row)

    for item, pieces in (("apples", 3), ("pears", 0)):
        with contextlib.suppress(sqlite3.IntegrityError):  # no pears are no order
            outbox.send(item.encode(), order(item, pieces))
    for _ in zip(range(2), outbox.checks(), strict=False):
        pass

    print("in the database:", [item for (item,) in database.execute("SELECT item FROM orders")])
    count = channel.queue_declare(queue, passive=True).method.message_count
    bodies = [channel.basic_get(queue, auto_ack=True)[2].decode() for _ in range(count)]
    print("delivered:", bodies)
    connection.close()


if __name__ == "__main__":
    _demo()
