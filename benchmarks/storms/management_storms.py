"""Storms of the HTTP API: large requests of one operator, or of ten at once."""

import json
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

from pamqp import commands, frame

from routelog.benchmarks.storms.crowd_storms import CrowdStorms
from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.frames import CHANNEL, content_frames
from routelog.benchmarks.traffic.unexpected import BrokerRefused

VHOST = "fairness"
ANSWER_SECONDS_MAX = 300
QUEUES = 20_000
LISTED_QUEUES = 100_000
SHOWN_MESSAGES = 160
OPERATORS = 10
LISTS = ("/queues", "/connections", "/consumers")  # of an operator while clients publish


class ManagementStorms:
    """Lists, definitions, policies and vhosts, each with very many queues.

    Args:
        url: of the broker, for AMQP.
        port: of its HTTP API.
        crowd: clients that publish while operators list.
    """

    def __init__(self, url: str, port: int, crowd: CrowdStorms, scale: float) -> None:
        self._owner = Connection(url)
        self._port = port
        self._crowd = crowd
        self._queues = max(1, int(QUEUES * scale))
        self._listed = max(1, int(LISTED_QUEUES * scale))
        self._shown = max(1, int(SHOWN_MESSAGES * scale))
        self.all: dict[str, Callable[[], None]] = {
            f"import definitions of {self._queues:,} queues, bound": self._import,
            "set a policy for them": self._policy,
            "list them, sorted by their messages": self._list,
            f"{OPERATORS} operators list them at once": self._list_together,
            f"{OPERATORS} operators list, while clients publish and consume": self._list_beside_crowd,
            "list their logs": self._list_logs,
            "export them": self._export,
            "delete their vhost": self._delete,
            f"declare {self._listed:,} exclusive queues": self._declare_many,
            "list all of them": self._list_all,
            f"show {self._shown} messages of 100 KB": self._show,
            "leave all of them behind": self._leave_all,
        }

    def _import(self) -> None:
        self._call("PUT", f"/vhosts/{VHOST}", {})
        names = [f"queue.{number}" for number in range(self._queues)]
        common = {"durable": True, "arguments": {}}
        bound = {"source": "amq.topic", "destination_type": "queue", "arguments": {}}
        document = {
            "queues": [{"name": name, "auto_delete": False, **common} for name in names],
            "bindings": [{"destination": n, "routing_key": f"{n}.*", **bound} for n in names],
        }
        self._call("POST", f"/definitions/{VHOST}", document)

    def _policy(self) -> None:
        policy = {"pattern": "queue", "definition": {"max-length": 1_000}, "apply-to": "queues"}
        self._call("PUT", f"/policies/{VHOST}/all", policy)

    def _list(self) -> None:
        self._call("GET", f"/queues/{VHOST}?sort=messages&sort_reverse=true")

    def _list_together(self) -> None:
        with ThreadPoolExecutor(OPERATORS) as operators:
            for listed in [operators.submit(self._list) for _ in range(OPERATORS)]:
                listed.result()

    def _list_beside_crowd(self) -> None:
        with ThreadPoolExecutor(1 + OPERATORS) as pool:
            publishing = pool.submit(self._crowd.publish_and_consume)
            for listing in [pool.submit(self._list_while, publishing) for _ in range(OPERATORS)]:
                listing.result()
            publishing.result()

    def _list_while(self, publishing: "Future[None]") -> None:
        while not publishing.done():
            for path in LISTS:
                self._call("GET", path)

    def _list_logs(self) -> None:
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self._call("PUT", f"/permissions/{VHOST}/guest", everything)
        self._call("GET", f"/logs/{VHOST}")

    def _export(self) -> None:
        self._call("GET", f"/definitions/{VHOST}")

    def _delete(self) -> None:
        self._call("DELETE", f"/vhosts/{VHOST}")

    def _declare_many(self) -> None:
        declares = [
            commands.Queue.Declare(queue=f"fairness.listed.{number}", exclusive=True)
            for number in range(self._listed)
        ]
        for _ in self._owner.call_each(declares, commands.Queue.DeclareOk):
            pass

    def _list_all(self) -> None:
        self._call("GET", "/queues")

    def _show(self) -> None:
        declare = commands.Queue.Declare(queue="fairness.shown")
        self._owner.call(declare, commands.Queue.DeclareOk)
        publish = commands.Basic.Publish(routing_key="fairness.shown")
        message = frame.marshal(publish, CHANNEL) + content_frames(0, 100_000, persistent=False)
        self._owner.send(message * self._shown)
        self._owner.call(declare, commands.Queue.DeclareOk)
        asked = {"count": self._shown, "ackmode": "ack_requeue_false", "encoding": "auto"}
        self._call("POST", "/queues/%2F/fairness.shown/get", asked)

    def _leave_all(self) -> None:
        self._owner.close()

    def _call(self, method: str, path: str, document: Any = None) -> None:
        headers = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
        content = None if document is None else json.dumps(document)
        http = HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_SECONDS_MAX)
        http.request(method, "/api" + quote(path, safe="/?=&%"), content, headers)
        answer = http.getresponse()
        said = answer.read()
        http.close()
        if answer.status >= 300:
            raise BrokerRefused(f"{method} {path}: {answer.status} {said[:200].decode()}")
