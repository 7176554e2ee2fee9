"""A real broker of several processes, and clients that know which process serves them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingConnection
from support.broker_process import BrokerProcess
from support.pika_client import Clients
from support.waiting import wait_until

PROCESSES = 3
CONNECTIONS_MAX = 40  # until each process has one


class Family:
    """A broker of several processes, and its clients."""

    def __init__(self, data: Path, within: Sequence[str] = (), **environment: str) -> None:
        environment["ROUTELOG_PROCESSES"] = str(PROCESSES)
        self.broker = BrokerProcess(data, environment, within=within).start()
        self.clients = Clients(self.broker.url)

    def pids(self, number: int) -> list[int]:
        """The system's numbers of one of the processes, of each start."""
        started = re.findall(rf"process {number} of {PROCESSES}: (\d+)", self.broker.log_text())
        return [int(each) for each in started]

    def pid(self, number: int) -> int:
        """The number of one of them now."""
        return self.pids(number)[-1]

    def one_each(self, user: str = "guest") -> dict[int, BlockingConnection]:
        """A connection of a user with each process, by its number; there are no others of him."""
        found: dict[int, BlockingConnection] = {}
        others: list[BlockingConnection] = []
        credentials = pika.PlainCredentials(user, user)
        while len(found) < PROCESSES and len(others) < CONNECTIONS_MAX:
            connection = self.clients.connect(credentials=credentials)
            number = self.process_of(connection)
            if number in found:
                others.append(connection)
            else:
                found[number] = connection
        assert len(found) == PROCESSES, found
        gone = {f"socket:[{inode_of(other)}]" for other in others}
        for other in others:
            other.close()
        pids = [self.pid(number) for number in found]
        wait_until(lambda: all(gone.isdisjoint(open_files(each)) for each in pids))
        return found

    def process_of(self, connection: BlockingConnection) -> int:
        """Which process serves a client."""
        inode = inode_of(connection)
        for number in range(1, PROCESSES + 1):
            if f"socket:[{inode}]" in open_files(self.pid(number)):
                return number
        raise AssertionError(f"nobody has socket {inode}")

    def close(self) -> None:
        """End all."""
        self.clients.close()
        self.broker.stop()


def inode_of(connection: BlockingConnection) -> str:
    """The broker's socket of a connection."""
    client = connection._impl._transport._sock
    own, theirs = (f":{port:04X}" for port in (client.getsockname()[1], client.getpeername()[1]))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(theirs) and fields[2].endswith(own):
            return fields[9]
    raise AssertionError("there is no such connection")


def open_files(process: int) -> set[str]:
    """What the files of a process are."""
    found = set()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            found.add(os.readlink(entry))
        except FileNotFoundError:  # closed meanwhile
            continue
    return found
