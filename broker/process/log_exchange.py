"""The broker's log as messages on `amq.rabbitmq.log` of the default vhost.

The routing key is the severity, the body the line as text.
"""

import asyncio
import logging

from routelog.broker.process.logs import TextFormatter
from routelog.vhosts import LOG_EXCHANGE, VhostDirectory, tell

WAITING_MAX = 1_000  # lines of one turn of the event loop; more are on stderr only

_SEVERITIES = {"WARNING": "warning", "ERROR": "error", "CRITICAL": "critical", "DEBUG": "debug"}


class LogExchange(logging.Handler):
    """Publishes log lines, from any thread, if a queue is bound."""

    def __init__(self, vhosts: VhostDirectory, loop: asyncio.AbstractEventLoop, node: str) -> None:
        super().__init__()
        self.setFormatter(TextFormatter())
        self._vhosts = vhosts
        self._loop = loop
        self._node = node
        self._waiting_lines: list[tuple[str, int, str]] = []
        self._telling = False

    def emit(self, record: logging.LogRecord) -> None:
        """Have a line published on the event loop."""
        # Lines logged while publishing are not published: that would never end.
        if self._telling or len(self._waiting_lines) >= WAITING_MAX or self._loop.is_closed():
            return
        severity = _SEVERITIES.get(record.levelname, "info")
        self._waiting_lines.append((severity, int(record.created), self.format(record)))
        if len(self._waiting_lines) == 1:
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        waiting, self._waiting_lines = self._waiting_lines, []
        vhost = next((v for v in self._vhosts.all() if v.name == self._vhosts.default_vhost), None)
        if vhost is None:
            return
        self._telling = True
        try:
            for severity, seconds, line in waiting:
                if vhost.routing.route(LOG_EXCHANGE, severity.encode()):
                    tell(
                        vhost.post,
                        LOG_EXCHANGE,
                        severity,
                        {"node": self._node},
                        line.encode(errors="replace"),
                        content_type="text/plain",
                        timestamp=seconds,
                    )
        finally:
            self._telling = False
