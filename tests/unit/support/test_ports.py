"""Ports that tests give to servers: nobody else has them while a server is away."""

import subprocess
import sys
from pathlib import Path

import pytest
from support import ports
from support.ports import BLOCK_PORTS, PortBlock, free_ports

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_no_outgoing_connection_is_given_one() -> None:
    first = int(EPHEMERAL.read_text().split()[0])
    assert max(free_ports(BLOCK_PORTS + 1)) < first


def test_two_processes_have_different_ones() -> None:
    program = "from support.ports import free_ports; print(*free_ports(300))"
    folder = Path(ports.__file__).parents[1]
    given = subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=folder, capture_output=True, text=True
    )
    others = set(map(int, given.stdout.split()))
    assert others
    assert others.isdisjoint(free_ports(300))


def test_a_port_comes_again_after_all_others() -> None:
    block = PortBlock()
    taken = [block.take(1) for _ in range(100)]
    assert len(set(taken)) == 100
    assert all(port not in taken for port in (block.take(4) for _ in range(10)))


def test_when_all_blocks_are_claimed_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "END_PORT", ports.FIRST_PORT + BLOCK_PORTS)
    with pytest.raises(AssertionError, match="all 1 blocks"):
        [PortBlock() for _ in range(2)]
