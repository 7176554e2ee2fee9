"""A minimal server with a disk: it reads a message, writes and syncs 4 KiB, and answers."""

import socket
import time
from pathlib import Path

from routelog.benchmarks.traffic.machine import SyncProbe
from routelog.benchmarks.traffic.processes import Processes

_MESSAGE = bytes(155)  # as long as a publish of 100 B
_ANSWER = bytes(21)  # as a confirm


class SyncServer:
    """The server in a process of its own, and its client.

    The time to an answer is the floor of a synced confirm on this machine: two processes wake each other, with
    a write and a sync in between.
    """

    def __init__(self, probe: Path) -> None:
        self._processes = Processes()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._processes.start(lambda: _serve(listener, probe))
            self._socket = socket.create_connection(listener.getsockname())
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answer_seconds()  # the server has made its file

    def answer_seconds(self) -> float:
        """Time from a message to its answer."""
        started = time.perf_counter()
        self._socket.sendall(_MESSAGE)
        left = len(_ANSWER)
        while left:
            received = len(self._socket.recv(left))
            if not received:
                self._processes.check()
                raise ConnectionResetError("the server has ended")
            left -= received
        return time.perf_counter() - started

    def close(self) -> None:
        """End server and client."""
        self._socket.close()
        self._processes.join()


def _serve(listener: socket.socket, path: Path) -> None:
    client, _ = listener.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    probe = SyncProbe(path)
    left = len(_MESSAGE)
    while received := len(client.recv(left)):
        left -= received
        if not left:
            probe.sync_seconds()
            client.sendall(_ANSWER)
            left = len(_MESSAGE)
    probe.close()
