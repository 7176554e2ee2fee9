"""What the pictures of the web page show: a broker with 2,000 queues, and some of what goes wrong in one."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor

SHOP, IOT, STAGING = "/", "iot", "staging.eu-west-1.tenant-000042"
LONG = "telemetry.eu-west-1.sensor-gateway-0042.readings.normalised-and-enriched.v3"
SENSORS, TENANTS = 1_700, 300
SINGLE = 190  # queues of tenants that hold one message, and have no consumer
ALL = {"configure": ".*", "write": ".*", "read": ".*"}
EVERYTHING_OF = {"shop": SHOP, "billing": SHOP, "sensors": IOT, "tenant-000042": STAGING}
PERSISTENT = pika.BasicProperties(delivery_mode=2, content_type="application/json")


def _queue(name: str, vhost: str = SHOP, **arguments: Any) -> dict[str, Any]:
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return {
        "name": name,
        "vhost": vhost,
        "durable": True,
        "auto_delete": False,
        "arguments": named,
    }


def _exchange(
    name: str, type_: str, vhost: str = SHOP, arguments: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "name": name,
        "vhost": vhost,
        "type": type_,
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "arguments": arguments or {},
    }


def _binding(source: str, queue: str, key: str, vhost: str = SHOP) -> dict[str, Any]:
    return {
        "source": source,
        "vhost": vhost,
        "destination": queue,
        "destination_type": "queue",
        "routing_key": key,
        "arguments": {},
    }


def _policy(
    name: str, vhost: str, pattern: str, priority: int, **definition: Any
) -> dict[str, Any]:
    named = {key.replace("_", "-"): value for key, value in definition.items()}
    return {
        "name": name,
        "vhost": vhost,
        "pattern": pattern,
        "apply-to": "queues",
        "priority": priority,
        "definition": named,
    }


DEFINITIONS: dict[str, Any] = {
    "vhosts": [
        {"name": SHOP, "description": "The shop"},
        {"name": IOT, "description": "Sensors of all regions"},
        {"name": STAGING, "description": "Goes away in March"},
    ],
    "queues": [
        _queue(
            "shop.orders",
            dead_letter_exchange="dlx",
            dead_letter_routing_key="orders",
            retention="1h",
            max_length=1_000_000,
        ),
        _queue("shop.orders.failed"),
        _queue("billing.invoices", queue_type="quorum", delivery_limit=5),
        _queue("mail.outbox", message_ttl=86_400_000),
        _queue("celery", max_priority=10),
        _queue("reminders"),
        _queue("warehouse.pick-lists"),
        _queue("clickstream", queue_type="stream", max_age="7D"),
        _queue("audit", queue_type="stream", max_age="1Y"),
        _queue(LONG, IOT, partitions=8),
        *(
            _queue(f"telemetry.{region}.sensor-gateway-{at:04}.readings.v3", IOT)
            for region in ("eu-west-1", "us-east-2", "ap-southeast-1", "sa-east-1")
            for at in range(SENSORS // 4)
        ),
        *(_queue(f"tenant-{at:06}.work", STAGING) for at in range(TENANTS)),
    ],
    "exchanges": [
        _exchange("orders", "topic"),
        _exchange("dlx", "direct"),
        _exchange("later", "x-delayed-message", arguments={"x-delayed-type": "direct"}),
        _exchange("telemetry", "topic", IOT),
        _exchange("work", "direct", STAGING),
    ],
    "bindings": [
        _binding("orders", "shop.orders", "order.*"),
        _binding("orders", "billing.invoices", "order.paid"),
        _binding("orders", "warehouse.pick-lists", "order.paid"),
        _binding("orders", "audit", "#"),
        _binding("dlx", "shop.orders.failed", "orders"),
        _binding("later", "reminders", "remind"),
        _binding("telemetry", LONG, "eu-west-1.#", IOT),
        *(_binding("work", f"tenant-{at:06}.work", f"{at}", STAGING) for at in range(TENANTS)),
    ],
    "policies": [
        _policy("readings", IOT, r"^telemetry\.", 10, message_ttl=3_600_000, max_length=100_000),
        _policy("failed-orders", SHOP, r"\.failed$", 5, max_length=50_000),
        _policy("tenants-are-small", STAGING, r"^tenant-", 1, max_length_bytes=10_000_000),
    ],
}


class World:
    """Fills a broker, and keeps its clients at work until it is stopped."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._door = ManagementDoor(broker)
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._rest = random.Random(36)

    def build(self) -> None:
        """Make everything there is, and begin to publish and to consume."""
        self._make_people()
        self._door.do("POST", "definitions", body=DEFINITIONS)
        self._door.do("PUT", "operator-policies", IOT, "ceiling", body=self._ceiling())
        self._door.do("PUT", "vhost-limits", STAGING, "max-queues", body={"value": 500})
        self._door.do("PUT", "vhost-limits", STAGING, "max-connections", body={"value": 100})
        self._door.do("PUT", "user-limits", "tenant-000042", "max-connections", body={"value": 20})
        ManagementDoor(self._broker, ("eve", "guessed")).ask("GET", "overview")
        self._fill()
        for work in (
            self._order, self._bill, self._pick, self._hang, self._click, self._measure, self._tasks,
        ):  # fmt: skip
            thread = threading.Thread(target=work, name=work.__name__, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Let the clients go."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(10)

    # -- what stays

    def _make_people(self) -> None:
        door = self._door
        for vhost in (IOT, STAGING):
            door.do("PUT", "vhosts", vhost, body={})
        for name, tags in (
            ("ann", "administrator"),
            ("ben", "monitoring"),
            ("cleo", "policymaker"),
        ):
            door.do("PUT", "users", name, body={"password": name, "tags": tags})
            for vhost in (SHOP, IOT, STAGING):
                door.do("PUT", "permissions", vhost, name, body=ALL)
        for name, vhost in EVERYTHING_OF.items():
            door.do("PUT", "users", name, body={"password": name, "tags": ""})
            door.do("PUT", "permissions", vhost, name, body=ALL)

    def _ceiling(self) -> dict[str, Any]:
        definition = {"max-length-bytes": 1_000_000_000}
        return {"pattern": ".*", "apply-to": "queues", "priority": 0, "definition": definition}

    def _connect(self, user: str, called: str) -> BlockingConnection:
        parameters = pika.ConnectionParameters(
            self._broker.host,
            self._broker.port,
            EVERYTHING_OF[user],
            pika.PlainCredentials(user, user),
            client_properties={"connection_name": called},
            heartbeat=0,
        )
        return BlockingConnection(parameters)

    def _fill(self) -> None:
        channel = self._connect("shop", "fills the shop").channel()
        channel.confirm_delivery()
        for at in range(3_000):
            channel.basic_publish("orders", "order.placed", self._order_body(at), PERSISTENT)
        for at in range(412):
            delay = 3_600_000 + 41_000 * at
            held = pika.BasicProperties(headers={"x-delay": delay}, delivery_mode=2)
            channel.basic_publish("later", "remind", b'{"cart": %d}' % at, held)
        for at in range(120):
            channel.basic_publish("", "mail.outbox", b'{"to": "customer %d"}' % at, PERSISTENT)
        for deliver, _, _ in channel.consume("shop.orders", inactivity_timeout=5):
            if deliver is None or deliver.delivery_tag > 300:
                break
            channel.basic_reject(deliver.delivery_tag, requeue=False)
        channel.connection.close()
        channel = self._connect("tenant-000042", "fills the tenants").channel()
        for at in range(SINGLE):
            channel.basic_publish("work", f"{at}", b"one", PERSISTENT)
        channel.connection.close()

    def _order_body(self, number: int) -> bytes:
        total = 100 + number * 37 % 20_000
        return b'{"id": %d, "total": %d.%02d, "currency": "EUR", "items": [{"sku": "A-%d"}]}' % (
            88_000 + number, total // 100, total % 100, number % 977,
        )  # fmt: skip

    # -- what goes on

    def _at_rate(self, per_second: float, do: Callable[[int], object], *others: Any) -> None:
        """Call a function so often, and let connections handle what came meanwhile."""
        number, began = 0, time.monotonic()
        while not self._is_over.is_set():
            due = int((time.monotonic() - began) * per_second)
            while number < due:
                do(number)
                number += 1
            for each in others:
                each.process_data_events(time_limit=0)
            self._is_over.wait(0.1)

    def _order(self) -> None:
        channel = self._connect("shop", "shop front 1").channel()
        channel.confirm_delivery()
        keys = ("order.placed", "order.paid", "order.placed", "order.refund")
        self._at_rate(
            105,
            lambda at: channel.basic_publish(
                "orders", keys[at % 4], self._order_body(at), PERSISTENT
            ),
        )

    def _take(self, channel: BlockingChannel, queue: str, **options: Any) -> list[int]:
        """Consume, and note the delivery tags that wait for their ack."""
        tags: list[int] = []
        channel.basic_consume(
            queue, lambda _, deliver, *__: tags.append(deliver.delivery_tag), **options
        )
        return tags

    def _served(
        self, user: str, called: str, queue: str, prefetch: int, per_second: float, **options: Any
    ) -> None:
        channel = self._connect(user, called).channel()
        channel.basic_qos(prefetch_count=prefetch)
        tags = self._take(channel, queue, **options)

        def settle(_: int) -> None:
            if tags:
                channel.basic_ack(tags.pop(0))

        self._at_rate(per_second, settle, channel.connection)

    def _bill(self) -> None:
        """Two consumers, slower than what comes, and a queue of type quorum beside it."""
        slow = [
            threading.Thread(
                target=self._served,
                args=("billing", f"order worker {at}", "shop.orders", 20, 22.5),
                kwargs={"consumer_tag": f"order-worker-{at}"},
                daemon=True,
            )
            for at in (1, 2)
        ]
        for each in slow:
            each.start()
        self._served("billing", "invoices", "billing.invoices", 200, 60, consumer_tag="invoices")

    def _pick(self) -> None:
        self._served("shop", "warehouse", "warehouse.pick-lists", 50, 60, consumer_tag="picker")

    def _hang(self) -> None:
        """A consumer whose prefetch is used up, and who acknowledges nothing."""
        self._served("shop", "mailer", "mail.outbox", 5, 0.001, consumer_tag="mailer")

    def _click(self) -> None:
        """A stream with a group that keeps up, and one that falls behind."""
        publisher = self._connect("shop", "click collector").channel()
        search = self._connect("shop", "search index").channel()
        search.basic_qos(prefetch_count=1_000)
        fast = self._take(search, "clickstream", arguments={"x-group": "search"})
        slow = threading.Thread(
            target=self._served,
            args=("billing", "click billing", "clickstream", 20, 30),
            kwargs={"arguments": {"x-group": "billing", "x-stream-offset": "first"}},
            daemon=True,
        )
        slow.start()
        body = b'{"page": "/basket", "session": "%06d"}'

        def step(number: int) -> None:
            for at in range(20):
                publisher.basic_publish("", "clickstream", body % (number * 20 + at), PERSISTENT)
            if fast:
                search.basic_ack(fast[-1], multiple=True)
                fast.clear()

        self._at_rate(15, step, search.connection)

    def _measure(self) -> None:
        channel = self._connect("sensors", "gateway eu-west-1 (edge-0042.example)").channel()
        reader = self._connect("sensors", "normaliser").channel()
        reader.basic_qos(prefetch_count=64)
        tags = self._take(reader, LONG, consumer_tag="normaliser-" + "0123456789abcdef" * 3)

        def step(number: int) -> None:
            for at in range(10):
                key = f"eu-west-1.{(number + at) % 64}"
                channel.basic_publish("telemetry", key, b'{"celsius": 21.5}')
            if tags:
                reader.basic_ack(tags[-1], multiple=True)
                tags.clear()

        self._at_rate(20, step, reader.connection)

    def _tasks(self) -> None:
        channel = self._connect("shop", "celery@worker-1").channel()
        own = channel.queue_declare("", exclusive=True).method.queue
        tags = self._take(channel, "celery", consumer_tag="None4")
        self._take(channel, own, auto_ack=True)

        def step(number: int) -> None:
            urgent = pika.BasicProperties(priority=number % 10, delivery_mode=2)
            channel.basic_publish("", "celery", b'{"task": "resize"}', urgent)
            channel.basic_publish("", own, b"done")
            while len(tags) > 4:
                channel.basic_ack(tags.pop(0))

        self._at_rate(20, step, channel.connection)
