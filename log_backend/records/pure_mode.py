"""Runs the kernel uncompiled when ROUTELOG_PURE=1: the same files, slower, for debugging and comparison.

Compiled, a module lies as an extension beside its source, and Python prefers the extension; this finder makes
it take the source.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

_DISTRIBUTION = __name__.partition(".")[0]


class SourceFinder(MetaPathFinder):
    """Finds the sources of this distribution's modules."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The source of a module of ours; None for packages, and for the modules of others."""
        package, _, name = fullname.rpartition(".")
        if not path or package.partition(".")[0] != _DISTRIBUTION:
            return None
        source = Path(path[0]) / f"{name}.py"
        return spec_from_file_location(fullname, source) if source.exists() else None


def install() -> None:
    """Take the sources if the environment asks for it; before a compiled module is imported."""
    if os.environ.get("ROUTELOG_PURE") == "1":
        sys.meta_path.insert(0, SourceFinder())
