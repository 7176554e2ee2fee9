"""A broker that commands ask: it notes what, and answers as it was told."""

import json
from collections.abc import Callable, Iterator

from typer.testing import Result

from routelog.management.commands.api_address import ApiAddress
from routelog.management.commands.client import AnswerRefused, ManagementClient

Asked = tuple[str, tuple[str, ...], object, str]
Run = Callable[..., Result]


class Broker(ManagementClient):
    """Notes what is asked; answers as it was told, by path."""

    def __init__(self) -> None:
        super().__init__(ApiAddress("http://here", "Bearer x"))
        self.asked: list[Asked] = []
        self.answers: dict[tuple[str, ...], object] = {}
        self.queries: list[str] = []  # of GET
        self.refusal = ""

    def pieces(
        self, method: str, *parts: str, body: object = None, query: str = ""
    ) -> Iterator[bytes]:
        """See `ManagementClient`."""
        if self.refusal:
            raise AnswerRefused(self.refusal)
        if method != "GET":
            self.asked.append((method, parts, body, query))
        elif query:
            self.queries.append(query)
        answer = self.answers.get(parts)
        yield b"" if answer is None else json.dumps(answer).encode()
