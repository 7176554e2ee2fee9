"""A network for each node: namespaces that are joined by a bridge in one more, where this process is.

    a 10.77.0.11 ──┐
    b 10.77.0.12 ──┼── bridge 10.77.0.1: clients
    c 10.77.0.13 ──┘

Nothing has a name in the system: a namespace lasts as long as a process is in it or has it open, and takes its
interfaces with it. So nothing is left behind, however this process ends.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from routelog.benchmarks.traffic.unexpected import EXIT_UNUSABLE, RunFailed

CLIENTS = "clients"
_BRIDGE_ADDRESS = "10.77.0.1"
_CLONE_NEWNET = 0x40000000
# What a node sends is late, and one packet in twenty lost. A kernel without netem gets a narrow link with a
# short queue: bursts are late by up to 0.4 s, and what does not fit is lost.
_NETEM = "netem delay 60ms 40ms loss 5%"
_NARROW = "tbf rate 1mbit burst 8kb latency 400ms"
# Nobody has it. What is sent there is lost, without a word to who sends it.
_NOWHERE = "02:00:00:00:00:01"

_libc = ctypes.CDLL(None, use_errno=True)


class NoNetworks(RunFailed):
    """Network namespaces cannot be made here; the text says why."""

    exit_code = EXIT_UNUSABLE


class NodeNetworks:
    """Networks of three nodes; `node_networks` makes them.

    Attributes:
        addresses: of the nodes, and of `CLIENTS`.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.addresses = {name: f"10.77.0.{11 + at}" for at, name in enumerate(names)}
        self.addresses[CLIENTS] = _BRIDGE_ADDRESS
        self._namespaces: dict[str, int] = {}

    def open(self) -> None:
        """Make the namespaces, and bring this thread, and what it starts, to the clients'."""
        nodes = [name for name in self.addresses if name != CLIENTS]
        for name in (*nodes, CLIENTS):
            if _libc.unshare(_CLONE_NEWNET):
                raise NoNetworks(os.strerror(ctypes.get_errno()))
            self._namespaces[name] = _own_namespace()
        _ip("link set lo up")
        _ip("link add bridge type bridge")
        _ip(f"address add {_BRIDGE_ADDRESS}/24 dev bridge")
        _ip("link set bridge up")
        for name in nodes:
            _ip(f"link add to-{name} type veth peer name node netns {self._path(name)}")
            _ip(f"link set to-{name} master bridge up")
            within = self.within(name)
            _ip("link set lo up", within)
            _ip(f"address add {self.addresses[name]}/24 dev node", within)
            _ip("link set node up", within)

    def close(self) -> None:
        """Let go of the namespaces."""
        for file in self._namespaces.values():
            os.close(file)

    def within(self, name: str) -> list[str]:
        """What to put before a command that runs in the network of a node; the process is the command's."""
        return ["nsenter", f"--net={self._path(name)}"]

    def lose(self, sender: str, receiver: str) -> None:
        """From now on nothing arrives that one sends to the other."""
        self._neighbour("replace", sender, receiver, f"lladdr {_NOWHERE} nud permanent")

    def cut_off(self, name: str, *others: str) -> None:
        """A node and others, by default all and the clients, cannot reach each other."""
        for other in others or self._others(name):
            self.lose(name, other)
            self.lose(other, name)

    def delay(self, name: str) -> None:
        """From now on what a node sends is late, and some of it lost."""
        try:
            self._queue("replace", name, _NETEM)
        except subprocess.CalledProcessError:
            self._queue("replace", name, _NARROW)

    def hurry(self, name: str) -> None:
        """What a node sends is in time again."""
        self._queue("delete", name, "")

    def _queue(self, change: str, name: str, how: str) -> None:
        _run([*self.within(name), "tc", "qdisc", change, "dev", "node", "root", *how.split()])

    def heal(self) -> None:
        """Everything arrives again."""
        for sender in self._namespaces:
            for receiver in self._others(sender):
                with suppress(subprocess.CalledProcessError):  # it is not lost
                    self._neighbour("delete", sender, receiver, "")

    def _others(self, name: str) -> list[str]:
        return [other for other in self._namespaces if other != name]

    def _neighbour(self, change: str, sender: str, receiver: str, how: str) -> None:
        device = "bridge" if sender == CLIENTS else "node"
        address = self.addresses[receiver]
        _ip(f"neighbour {change} {address} dev {device} {how}", self.within(sender))

    def _path(self, name: str) -> str:
        return f"/proc/{os.getpid()}/fd/{self._namespaces[name]}"


@contextmanager
def node_networks(names: Sequence[str]) -> Iterator[NodeNetworks]:
    """Networks for nodes; meanwhile this thread is in that of the clients.

    Raises:
        NoNetworks: they cannot be made here.
    """
    before = _own_namespace()
    networks = NodeNetworks(names)
    try:
        try:
            networks.open()
        except OSError as error:
            raise NoNetworks(str(error)) from None
        except subprocess.CalledProcessError as error:
            raise NoNetworks(f"{' '.join(error.cmd)}: {error.stderr.strip()}") from None
        yield networks
    finally:
        _libc.setns(before, _CLONE_NEWNET)
        networks.close()
        os.close(before)


def _own_namespace() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _ip(command: str, within: Sequence[str] = ()) -> None:
    _run([*within, "ip", *command.split()])


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
