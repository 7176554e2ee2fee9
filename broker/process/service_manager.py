"""Notifications of the service manager: systemd, or another one with its protocol.

Source:
    sd_notify(3): a datagram of `KEY=value` lines to the socket named by NOTIFY_SOCKET.
"""

import logging
import socket
from collections.abc import Mapping

_log = logging.getLogger(__name__)


class ServiceManager:
    """The other end of NOTIFY_SOCKET; without that variable, nothing is sent.

    A manager that cannot be reached is logged and otherwise ignored: the broker serves anyway.
    """

    def __init__(self, address: str | None) -> None:
        """Take the socket's address: a path, or `@name` in Linux's abstract name space."""
        self._address = address

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "ServiceManager":
        """The manager that started this process, as its environment says."""
        return cls(environment.get("NOTIFY_SOCKET") or None)

    def ready(self) -> None:
        """Start-up is over: connections are accepted."""
        self._notify(b"READY=1")

    def stopping(self) -> None:
        """A graceful stop has begun."""
        self._notify(b"STOPPING=1")

    def _notify(self, state: bytes) -> None:
        if self._address is None:
            return
        # An abstract name starts with a zero byte, which an environment variable cannot hold.
        target = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as door:
                door.sendto(state, target)
        except OSError as error:
            _log.warning("the service manager at %s was not told: %s", self._address, error)
