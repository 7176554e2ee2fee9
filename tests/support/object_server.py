"""A real S3-compatible server for tests: SeaweedFS, one process of its own, that checks signatures."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from support.ports import free_ports

KEY, SECRET = "routelog", "secret/key+1"  # what has to be encoded in an address is in it
BUCKET = "logs"
READY_SECONDS_MAX = 30.0


class ObjectServer:
    """One server on free ports of this machine, and a bucket in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = free_ports(8)
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, prefix: str, key: str = KEY) -> str:
        """What a broker and a query are told."""
        options = f"endpoint_override=127.0.0.1:{self._ports[0]}&scheme=http&region=us-east-1"
        options += "&allow_bucket_creation=true"
        return f"s3://{key}:secret%2Fkey%2B1@{BUCKET}/{prefix}?{options}"

    def start(self) -> ObjectServer:
        """Start it and wait until it answers."""
        data = self._folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        keys = {
            "name": "routelog",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin"],
        }
        config = self._folder / "s3.json"
        config.write_text(json.dumps({"identities": [keys]}))
        names = ("s3", "master", "volume", "filer")
        ports = [f"-{name}.port={port}" for name, port in zip(names, self._ports[:4], strict=True)]
        ports += [
            f"-{name}.port.grpc={port}" for name, port in zip(names, self._ports[4:], strict=True)
        ]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(Path(sys.executable).with_name("weed")),
                    "-logtostderr=true",
                    "server",
                    "-ip=127.0.0.1",
                    "-ip.bind=127.0.0.1",
                    f"-dir={data}",
                    "-master.volumeSizeLimitMB=64",
                    "-volume.max=0",
                    "-filer",
                    "-s3",
                    "-s3.iam=false",
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    f"-s3.config={config}",
                    *ports,
                ],
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
        self._wait_until_ready()
        return self

    def stop(self) -> None:
        """End it at once; what it has stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
            for port in self._ports:  # killed, it leaves its sockets where it put them
                for socket_file in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                    socket_file.unlink(missing_ok=True)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            connection = HTTPConnection("127.0.0.1", self._ports[0], timeout=5)
            try:
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    return
            except (OSError, HTTPException):
                pass
            finally:
                connection.close()
            assert self._process is not None
            assert self._process.poll() is None, (self._folder / "server.log").read_text()[-2000:]
            assert time.monotonic() < deadline, (self._folder / "server.log").read_text()[-2000:]
            time.sleep(0.05)
