"""A broker that stops before or behind one step of remote storage, as long as a file says so: run as a program.

`ROUTELOG_TEST_HELD` names a folder. While it holds a file of the node's name, which says `before TEXT` or
`behind TEXT`, who writes an object or removes a file whose path has that text waits. Meanwhile there is
`NODE.reached`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from routelog.amqp_front.__main__ import main
from routelog.log_backend.doors.disk import Buffer, SystemDisk
from routelog.log_backend.remote.folder_bucket import FolderBucket

HELD = Path(os.environ["ROUTELOG_TEST_HELD"])
NODE = os.environ["ROUTELOG_NODE_NAME"]


def hold(moment: str, path: str) -> None:
    file = HELD / NODE
    while file.exists():
        told, _, text = file.read_text().partition(" ")
        if told != moment or not text or text not in path:
            return
        (HELD / f"{NODE}.reached").touch()
        time.sleep(0.005)


write, remove = FolderBucket.write, SystemDisk.remove


def held_write(bucket: FolderBucket, name: str, pieces: Iterable[Buffer], size: int) -> None:
    hold("before", name)
    write(bucket, name, pieces, size)
    hold("behind", name)


def held_remove(disk: SystemDisk, path: Path) -> None:
    hold("before", str(path))
    remove(disk, path)


if __name__ == "__main__":
    FolderBucket.write = held_write  # type: ignore[assignment, method-assign]
    SystemDisk.remove = held_remove  # type: ignore[assignment, method-assign]
    main()
