"""Publishes audit events with aio-pika and waits for all confirms: `python audit_publisher.py URL COUNT`.

Says how many are confirmed, from time to time and in the end.
"""

from __future__ import annotations

import asyncio
import json
import sys

import aio_pika

EXCHANGE = "audit"
KEYS = ("order.created.eu", "order.paid.us", "payment.taken.eu", "user.signed-in.us")
TENANTS = 64
IN_FLIGHT = 2_000


def key_of(number: int) -> str:
    """The routing key of an event: its kind, and who it is of."""
    return f"{KEYS[number % len(KEYS)]}.{number // len(KEYS) % TENANTS}"


def body_of(number: int) -> bytes:
    return json.dumps({"id": number, "actor": f"user-{number % 977}", "note": "x" * 60}).encode()


async def publish(url: str, count: int) -> None:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        exchange = await channel.get_exchange(EXCHANGE)
        for first in range(0, count, IN_FLIGHT):
            numbers = range(first, min(first + IN_FLIGHT, count))
            # Each returns when its event is confirmed, and raises when it is not, or reaches no queue.
            await asyncio.gather(
                *(
                    exchange.publish(
                        aio_pika.Message(
                            body_of(number), delivery_mode=aio_pika.DeliveryMode.PERSISTENT
                        ),
                        key_of(number),
                    )
                    for number in numbers
                )
            )
            sys.stdout.write(f"confirmed {numbers[-1] + 1}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(publish(sys.argv[1], int(sys.argv[2])))
