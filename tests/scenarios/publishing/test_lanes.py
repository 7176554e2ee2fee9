"""Lanes: a test environment's messages reach its consumer if there is one, and the base otherwise."""

from __future__ import annotations

from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties
from support.pika_client import Clients, drain

SERVICES = ("billing", "mail")


def declare_service(channel: BlockingChannel, topics: str, service: str) -> None:
    base, lanes = f"{topics}.{service}", f"{topics}.{service}.lanes"
    channel.exchange_declare(base, "fanout", durable=True)
    channel.queue_declare(base, durable=True)
    channel.queue_bind(base, base)
    channel.exchange_declare(lanes, "headers", durable=True, arguments={"alternate-exchange": base})
    channel.exchange_bind(lanes, topics, "order.*")


def open_lane(channel: BlockingChannel, topics: str, service: str, lane: str) -> str:
    queue: str = channel.queue_declare("", exclusive=True).method.queue
    arguments = {"x-match": "all", "lane": lane}
    channel.queue_bind(queue, f"{topics}.{service}.lanes", arguments=arguments)
    return queue


def publish(channel: BlockingChannel, topics: str, lane: str | None) -> None:
    headers = {} if lane is None else {"lane": lane}
    body = (lane or "base").encode()
    channel.basic_publish(topics, "order.paid", body, BasicProperties(headers=headers))


def test_messages_of_a_lane_reach_its_consumer_or_the_base(clients: Clients) -> None:
    channel = clients.channel()
    topics = "shop.lanes"
    channel.exchange_declare(topics, "topic", durable=True)
    for service in SERVICES:
        declare_service(channel, topics, service)
    tester = clients.channel()
    lane = open_lane(tester, topics, "billing", "ppe-42")
    channel.confirm_delivery()
    for each in (None, "ppe-42", "ppe-7"):
        publish(channel, topics, each)
    assert drain(tester, lane) == [b"ppe-42"]
    assert drain(channel, f"{topics}.billing") == [b"base", b"ppe-7"]
    assert drain(channel, f"{topics}.mail") == [b"base", b"ppe-42", b"ppe-7"]

    tester.connection.close()
    publish(channel, topics, "ppe-42")
    assert drain(channel, f"{topics}.billing") == [b"ppe-42"]
