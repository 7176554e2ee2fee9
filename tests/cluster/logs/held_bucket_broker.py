"""A broker that stops before or behind one step of remote storage, as long as a file says so: run as a program.

`ROUTELOG_TEST_HELD` names a folder. While it holds a file of the node's name, which says `before TEXT`, `behind
TEXT` or `removing TEXT`, who writes an object, has written one, or removes a file waits, if its path has that
text. Meanwhile there is `NODE.reached`: path and content, as a bucket has a request that it carries out later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from routelog.__main__ import main
from routelog.log_backend.doors.disk import Buffer, SystemDisk
from routelog.log_backend.remote.folder_bucket import FolderBucket

HELD = Path(os.environ["ROUTELOG_TEST_HELD"])
NODE = os.environ["ROUTELOG_NODE_NAME"]


def hold(moment: str, path: str, content: bytes = b"") -> None:
    file, reached = HELD / NODE, HELD / f"{NODE}.reached"
    while file.exists():
        told, _, text = file.read_text().partition(" ")
        if told != moment or not text or text not in path:
            return
        if not reached.exists():
            reached.with_suffix(".new").write_bytes(path.encode() + b"\n" + content)
            reached.with_suffix(".new").rename(reached)
        time.sleep(0.005)


write, remove = FolderBucket.write, SystemDisk.remove


def held_write(bucket: FolderBucket, name: str, pieces: Iterable[Buffer], size: int) -> None:
    content = b"".join([bytes(each) for each in pieces])  # pieces share a buffer
    hold("before", name, content)
    write(bucket, name, [content], size)
    hold("behind", name)


def held_remove(disk: SystemDisk, path: Path) -> None:
    hold("removing", str(path))
    remove(disk, path)


if __name__ == "__main__":
    FolderBucket.write = held_write  # type: ignore[assignment, method-assign]
    SystemDisk.remove = held_remove  # type: ignore[assignment, method-assign]
    main()
