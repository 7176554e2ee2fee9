"""Indexes: Delta tables of declared columns, in one folder, which exports keep up to date.

<folder>/<name>/_routelog/definition.json    the definition
<folder>/<name>/...                         the Delta table
"""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from routelog.log_backend import Disk, replace_file
from routelog.spark_bridge.columns.record_table import TableLayout, parse_layout
from routelog.spark_bridge.lakes.delta_lake import INTENTS
from routelog.spark_bridge.logs.errors import BadOption

DEFINITION = "definition.json"
DRAFT = "definition.draft"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")  # of a table in SQL, without quotes


@dataclass(frozen=True, slots=True)
class Index:
    """The definition of an index.

    Attributes:
        columns: see `parse_declared_columns`.
        with_body: the table has the bodies, too.
    """

    name: str
    vhost: str
    queue: str
    columns: str
    body_format: str
    with_body: bool

    @property
    def layout(self) -> TableLayout:
        """The columns of its table.

        Raises:
            BadOption: they cannot be read.
        """
        return parse_layout(self.columns, self.body_format, envelope=False, body=self.with_body)


class IndexRegistry:
    """The indexes of one folder."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    def all(self) -> list[Index]:
        """All indexes by name."""
        found = sorted(self._folder.glob(f"*/{INTENTS}/{DEFINITION}"))
        return [self._read(path) for path in found]

    def find(self, name: str) -> Index:
        """Return the index with a name.

        Raises:
            BadOption: there is no such index.
        """
        for index in self.all():
            if index.name == name:
                return index
        raise BadOption("name", f"no index '{name}' in {self._folder}")

    def path(self, index: Index) -> Path:
        """The path of an index's table."""
        return self._folder / index.name

    def create(self, index: Index) -> None:
        """Declare an index; the first export creates its table.

        Raises:
            BadOption: the definition is not valid, or differs from an index of this name.
        """
        if not NAME.fullmatch(index.name):
            raise BadOption("name", f"expected letters, digits and _, not '{index.name}'")
        _ = index.layout  # refused before anything is written
        for known in self.all():
            if known == index:
                return
            if known.name == index.name:
                raise BadOption("name", f"there is another index {index.name}; drop it first")
        directory = self.path(index) / INTENTS
        if any(each.is_file() and each.name != DRAFT for each in self.path(index).rglob("*")):
            raise BadOption("name", f"{self.path(index)} is there, and no index")
        self._disk.make_directory(directory)
        content = json.dumps(asdict(index), indent=1).encode()
        replace_file(self._disk, directory / DEFINITION, directory / DRAFT, content)

    def drop(self, name: str) -> None:
        """Remove an index and its table; the queue's log stays.

        Raises:
            BadOption: there is no such index.
        """
        path = self.path(self.find(name))
        # The definition is removed last: after a crash the index can be dropped again, or declared again.
        files = [each for each in path.rglob("*") if each.is_file()]
        for file in sorted(files, key=lambda each: each.name == DEFINITION):
            self._disk.remove(file)
        for directory in sorted(path.rglob("*"), reverse=True):
            directory.rmdir()
        path.rmdir()

    def _read(self, path: Path) -> Index:
        try:
            with path.open("rb") as file:
                return Index(**json.loads(file.read()))
        except (ValueError, TypeError):
            raise BadOption("name", f"{path} holds no index") from None
