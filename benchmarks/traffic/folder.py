"""Where measurements keep their data: the disk counts, so it can be chosen."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from routelog.benchmarks.traffic.unexpected import BadRequest


@contextmanager
def scratch(folder: Path | None, prefix: str) -> Iterator[Path]:
    """A directory of one's own in a folder, which is made if it is missing; removed at the end.

    Args:
        folder: None means the system's place for temporary files.

    Raises:
        BadRequest: it cannot be made.
    """
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        made = tempfile.TemporaryDirectory(prefix=prefix, dir=folder)
    except OSError as error:
        raise BadRequest(f"{folder}: cannot be used: {error.strerror}") from None
    with made as path:
        yield Path(path)
