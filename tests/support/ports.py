"""Ports for servers of tests: one that is killed finds its port free when it comes back."""

from __future__ import annotations

import random
import socket

# Below the system's ephemeral range (32,768 to 60,999): there, any outgoing connection may take the port of a
# server that is away.
FIRST_PORT, END_PORT = 10_000, 20_000
BLOCK_PORTS = 250  # of one process: more than its tests hold at a time


class PortBlock:
    """Ports that no other process of tests gives out.

    An abstract Unix socket whose name tells the block is the claim: of the processes in a network namespace
    only one can have it, and it ends with its process.
    """

    def __init__(self) -> None:
        starts = list(range(FIRST_PORT, END_PORT, BLOCK_PORTS))
        random.shuffle(starts)
        self._claim = socket.socket(socket.AF_UNIX)
        for start in starts:
            try:
                self._claim.bind(f"\0routelog-test-ports-{start}")
            except OSError:  # another process has it
                continue
            self._start = self._next = start
            return
        raise AssertionError(f"all {len(starts)} blocks of ports are claimed")

    def take(self, size: int) -> int:
        """The first of so many ports side by side that nobody listens on; each comes again after all others."""
        for _ in range(BLOCK_PORTS):
            if self._next + size > self._start + BLOCK_PORTS:
                self._next = self._start
            first = self._next
            self._next += size
            if all(map(_is_free, range(first, first + size))):
                return first
        raise AssertionError(f"none of the {BLOCK_PORTS} ports of this process is free")


_blocks: list[PortBlock] = []


def free_ports(count: int, size: int = 1) -> list[int]:
    """Ports of 127.0.0.1 that stay free for the test while its servers are away.

    Args:
        count: of groups.
        size: of a group, whose first port is given.
    """
    if not _blocks:
        _blocks.append(PortBlock())
    return [_blocks[0].take(size) for _ in range(count)]


def free_port() -> int:
    """One of `free_ports`."""
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
