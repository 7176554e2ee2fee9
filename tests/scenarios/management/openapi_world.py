"""A broker in which there is one of everything that paths of the HTTP API name, and how to ask it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import requests
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.waiting import wait_until

NAME = "known"
PATTERNS = {"configure": ".*", "write": ".*", "read": ".*"}


class World:
    """The broker, and the names that are known there.

    Attributes:
        url: of the HTTP API, whose paths begin with /api.
        session: may do everything, whatever becomes of users.
        document: the OpenAPI document.
    """

    def __init__(self, broker: BrokerProcess) -> None:
        self.door = ManagementDoor(broker)
        self.url = f"http://{self.door.address.netloc}"
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {self.door.token}"
        self.document: dict[str, Any] = self.door.get("openapi.json")
        self._parts: dict[str, str] = {}

    def fill(self, broker: BrokerProcess, backup: Path) -> None:
        """Make one of everything."""
        door = self.door
        door.do("PUT", "vhosts", NAME, body={"description": "x", "default_queue_type": "quorum"})
        door.add_user(NAME, "management")
        topic = {"exchange": "amq.topic", "write": ".*", "read": ".*"}
        door.do("PUT", "topic-permissions", "/", NAME, body=topic)
        door.do("PUT", "exchanges", "/", NAME, body={"type": "direct"})
        delayed = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}
        door.do("PUT", "exchanges", "/", "delayed", body=delayed)
        late = {"properties": {"headers": {"x-delay": 3_600_000}}, "routing_key": NAME}
        late |= {"payload": "late", "payload_encoding": "string"}
        door.do("POST", "exchanges", "/", "delayed", "publish", body=late)
        arguments = {"x-retention": "1h", "x-max-length": 1_000}
        door.do("PUT", "queues", "/", NAME, body={"arguments": arguments})
        door.do("PUT", "queues", "/", "stream", body={"arguments": {"x-queue-type": "stream"}})
        door.do("POST", "bindings", "/", "e", NAME, "q", NAME, body={"routing_key": NAME})
        door.do("POST", "bindings", "/", "e", NAME, "e", "amq.fanout", body={"routing_key": NAME})
        policy = {"pattern": f"^{NAME}$", "definition": {"max-length": 500}}
        door.do("PUT", "policies", "/", NAME, body=policy)
        door.do("PUT", "operator-policies", "/", NAME, body=policy)
        door.do("PUT", "vhost-limits", "/", "max-queues", body={"value": 100})
        door.do("PUT", "user-limits", NAME, "max-channels", body={"value": 100})
        door.do("PUT", "global-parameters", NAME, body={"value": {"a": 1}})
        shovel = {
            "component": "shovel",
            "vhost": "/",
            "name": NAME,
            "value": {"src-uri": "amqp://"},
        }
        door.do("POST", "definitions", body={"parameters": [shovel]}, query="unknown=keep")
        door.do("PUT", "logs", "/", NAME, "readers", NAME, body={"offsets": {"0": 0}})
        door.do("POST", "backup", body={"target": backup.as_uri(), "name": NAME})
        self._parts = {
            "vhost": "/",
            "kind": "q",
            "partition": "0",
            "properties": NAME,
            "component": "shovel",
            "within": "1",
            "unit": "weeks",
            "port": str(broker.port),
            "protocol": "amqp",
            "state": "running",
            "exchange": "amq.topic",
        }

    def meet(self, broker: BrokerProcess) -> pika.BlockingConnection:
        """A client that has published, consumed and left something unsettled."""
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish(NAME, NAME, b"body", pika.BasicProperties(delivery_mode=2))
        channel.basic_publish("", "stream", b"body")
        channel.basic_qos(prefetch_count=1)
        channel.basic_get(NAME, auto_ack=True)
        channel.basic_consume(NAME, lambda *_: None)
        connection.process_data_events(0)
        wait_until(lambda: self.door.get("queues", "/", NAME)["messages_unacknowledged"] == 1)
        [name] = [each["name"] for each in self.door.get("connections")]
        node = self.door.get("overview")["node"]
        delayed = self.door.get("exchanges", "/", "delayed", "delayed")["items"][0]["id"]
        self._parts |= {"node": node, "channel": f"{name} (1)", "id": delayed, "connection": name}
        return connection

    def parts(self, path: str) -> dict[str, str]:
        """What stands for the named parts of a path in this world, encoded."""
        known = dict(self._parts)
        known["name"] = NAME
        if path.startswith("/api/connections/{name}"):
            known["name"] = known["connection"]
        elif path.startswith("/api/connections/username"):
            known["name"] = "guest"
        elif path.startswith(("/api/nodes", "/api/healthchecks")):
            known["name"] = known["node"]
        elif path.endswith(("/delayed", "/delayed/{id}")):
            known["name"] = "delayed"
        known["limit"] = "max-channels" if "user-limits" in path else "max-queues"
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        return {name: quote(known.get(name, NAME), safe="") for name in names}

    def get(self, path: str) -> requests.Response:
        """What is answered to a path of this world."""
        asked: dict[str, Any] = {"time": 0, "start": 0, "end": 100, "bytes": 1_000, "verb": "read"}
        named = self.document["paths"][path]["get"]["parameters"]
        needed = [each["name"] for each in named if each["required"] and each["in"] == "query"]
        url = self.url + path.format_map(self.parts(path))
        query = {name: asked[name] for name in needed}
        if path.endswith("/may"):
            query["queue"] = NAME  # this, or an exchange
        return self.session.get(url, params=query, timeout=30)


@contextmanager
def openapi_world(folder: Path) -> Iterator[World]:
    """A world in a folder; its broker ends with it."""
    broker = BrokerProcess(folder / "data").start()
    try:
        world = World(broker)
        world.fill(broker, folder / "backup")
        client = world.meet(broker)
        try:
            yield world
        finally:
            world.session.close()
            with suppress(pika.exceptions.AMQPError):  # the connection was closed by the API
                client.close()
    finally:
        broker.stop()


def strict(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document, if no object had other keys than those that it names."""
    told: dict[str, Any] = json.loads(json.dumps(document))
    for schema in told["components"]["schemas"].values():
        if schema.get("properties"):
            schema.setdefault("additionalProperties", False)
    return told
