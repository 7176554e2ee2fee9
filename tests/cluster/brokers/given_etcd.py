"""An etcd of one member that the operator runs: it can be emptied, and set back to what it was."""

import asyncio
import shutil
import subprocess
from base64 import b64decode, b64encode
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
from support.ports import free_ports

from routelog.mirror_cluster.coordination.coordinator import CoordinatorUnavailable
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdEndpoints, EtcdGateway
from routelog.mirror_cluster.coordination.managed_etcd import EtcdMember

READY_SECONDS_MAX = 30.0
RECORD_KEY = "/routelog/routelog/shards/0"


class GivenEtcd:
    """See the module.

    Attributes:
        url: where nodes reach it.
    """

    def __init__(self, folder: Path) -> None:
        client, peer = free_ports(2)
        self.url = f"http://127.0.0.1:{client}"
        self._folder = folder
        peers = {"one": f"http://127.0.0.1:{peer}"}
        self._member = EtcdMember("one", folder, self.url, "127.0.0.1", peers, "test")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(["etcd", *self._member.arguments()])
        self.ask("kv/range", {"key": _encoded("x")})

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def keep(self, copy: Path) -> None:
        """Put a copy of all that it holds into another folder."""
        self.stop()
        shutil.copytree(self._folder, copy)
        self.start()

    def restore(self, copy: Path) -> None:
        """Hold what the copy holds; it is stopped, and stays so."""
        shutil.rmtree(self._folder)
        shutil.copytree(copy, self._folder)

    def empty(self) -> None:
        """Delete all keys."""
        self.ask("kv/deleterange", {"key": _encoded("\0"), "range_end": _encoded("\0")})

    def record(self) -> dict[str, Any]:
        """The shard's."""
        (found,) = self.ask("kv/range", {"key": _encoded(RECORD_KEY)})["kvs"]
        return dict(msgspec.json.decode(b64decode(found["value"])))

    def set_record(self, record: dict[str, Any]) -> None:
        """As somebody else would."""
        value = msgspec.json.encode(record).decode()
        self.ask("kv/put", {"key": _encoded(RECORD_KEY), "value": _encoded(value)})

    def ask(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        """One request, repeated until it is answered."""
        return asyncio.run(self._ask(path, body))

    async def _ask(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        async with (
            asyncio.timeout(READY_SECONDS_MAX),
            aclosing(EtcdGateway(EtcdEndpoints([self.url]))) as gateway,
        ):
            while True:
                try:
                    return dict(msgspec.json.decode(await gateway.request(path, body)))
                except CoordinatorUnavailable:
                    await asyncio.sleep(0.05)


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
