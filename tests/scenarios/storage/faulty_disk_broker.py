"""A broker whose journal cannot be synced, or not yet, as long as a file says so: run as a program.

`ROUTELOG_TEST_FAULTS` names a folder. While it holds a file `fail`, syncing a journal file is an error;
while it holds a file `stall`, it takes until the file is gone.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from pathlib import Path

from routelog.__main__ import main
from routelog.log_backend.doors.disk import Buffer, SystemDisk

FAULTS = Path(os.environ["ROUTELOG_TEST_FAULTS"])


def fault(file: int) -> None:
    if not os.readlink(f"/proc/self/fd/{file}").endswith(".journal"):
        return
    while (FAULTS / "stall").exists():
        time.sleep(0.002)
    if (FAULTS / "fail").exists():
        raise OSError(errno.EIO, "made to fail")


sync, write_synced = SystemDisk.sync, SystemDisk.write_synced


def faulty_sync(disk: SystemDisk, file: int) -> None:
    fault(file)
    sync(disk, file)


def faulty_write_synced(
    disk: SystemDisk, file: int, position: int, buffers: Sequence[Buffer]
) -> None:
    fault(file)
    write_synced(disk, file, position, buffers)


if __name__ == "__main__":
    SystemDisk.sync = faulty_sync  # type: ignore[assignment, method-assign]
    SystemDisk.write_synced = faulty_write_synced  # type: ignore[assignment, method-assign]
    main()
