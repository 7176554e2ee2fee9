"""With ROUTELOG_PURE=1 modules are their sources, compiled or not."""

import json
from pathlib import Path

from routelog import log_backend
from routelog.log_backend import records
from routelog.log_backend.records.pure_mode import SourceFinder


def test_a_module_is_found_as_its_source() -> None:
    spec = SourceFinder().find_spec("routelog.log_backend.records.checksum", records.__path__)
    assert spec is not None
    assert spec.origin == str(Path(records.__path__[0]) / "checksum.py")


def test_packages_and_modules_of_others_are_left_to_python() -> None:
    finder = SourceFinder()
    assert finder.find_spec("routelog", None) is None
    assert finder.find_spec("routelog.log_backend.records", log_backend.__path__) is None
    assert finder.find_spec("json.decoder", json.__path__) is None
