"""Files that browsers keep: style, scripts and icon, each under an address that changes with its content."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from routelog.log_backend import read_small

STATIC = Path(__file__).parent / "static"
FILE_BYTES_MAX = 1024 * 1024

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as the browser gets it."""

    content: bytes
    media_type: str


class StaticFiles:
    """The files by the names in their addresses. Making it reads them."""

    def __init__(self) -> None:
        self._files: dict[str, StaticFile] = {}
        self._addresses: dict[str, str] = {}
        for path in STATIC.iterdir():
            media_type = _TYPES.get(path.suffix)
            if media_type is not None:
                content = read_small(path, FILE_BYTES_MAX)
                name = f"{hashlib.sha256(content).hexdigest()[:12]}-{path.name}"
                self._files[name] = StaticFile(content, media_type)
                self._addresses[path.name] = f"/static/{name}"

    def find(self, name: str) -> StaticFile | None:
        """The file that an address names."""
        return self._files.get(name)

    def address(self, name: str) -> str:
        """Where a file is to be had."""
        return self._addresses[name]
