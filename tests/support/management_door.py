"""The HTTP API of a broker process, as a client of one user sees it."""

from __future__ import annotations

import base64
import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlsplit

from support.broker_process import BrokerProcess

GUEST = ("guest", "guest")


class ManagementDoor:
    """Requests with the password of one user; None sends no credentials."""

    def __init__(self, broker: BrokerProcess, user: tuple[str, str] | None = GUEST) -> None:
        door = json.loads((broker.data_dir / "management.json").read_text())
        self.address = urlsplit(door["url"])
        self.token = str(door["token"])
        self.headers: dict[str, str] = {}
        if user is not None:
            encoded = base64.b64encode(":".join(user).encode()).decode()
            self.headers["Authorization"] = f"Basic {encoded}"

    def raw(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer; the path is sent as it is."""
        connection = HTTPConnection(str(self.address.hostname), self.address.port, timeout=60)
        try:
            connection.request(method, f"/api{path}", body, {**self.headers, **headers})
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, named, answer.read()
        finally:
            connection.close()

    def ask(self, method: str, *parts: str, body: Any = None, query: str = "") -> tuple[int, Any]:
        """Status and decoded body of an answer; parts of the path are encoded."""
        path = "/" + "/".join(quote(part, safe="") for part in parts) + (query and f"?{query}")
        content = None if body is None else json.dumps(body).encode()
        status, _, answer = self.raw(method, path, content)
        return status, json.loads(answer) if answer else None

    def get(self, *parts: str, query: str = "") -> Any:
        """What a GET that succeeds gives."""
        status, answer = self.ask("GET", *parts, query=query)
        assert status == 200, (parts, status, answer)
        return answer

    def do(self, method: str, *parts: str, body: Any = None, query: str = "") -> Any:
        """What a change that succeeds gives."""
        status, answer = self.ask(method, *parts, body=body, query=query)
        assert status in (200, 201, 204), (method, parts, status, answer)
        return answer

    def add_user(self, name: str, tags: str = "", vhost: str | None = "/") -> tuple[str, str]:
        """A user with his name as password, who may do everything in a vhost."""
        self.do("PUT", "users", name, body={"password": name, "tags": tags})
        if vhost is not None:
            allowed = {"configure": ".*", "write": ".*", "read": ".*"}
            self.do("PUT", "permissions", vhost, name, body=allowed)
        return name, name
