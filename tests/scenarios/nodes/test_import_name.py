"""The broker is one name on the user's machine."""

import subprocess
import sys
from pathlib import Path

from support.source_tree import ROOT

PACKAGES = sorted(path.name for path in (ROOT / "src" / "routelog").iterdir() if path.is_dir())


def test_an_application_may_have_packages_of_the_same_names(tmp_path: Path) -> None:
    assert "vhosts" in PACKAGES
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('of the application')")
    # With -m the current folder comes first in the search for modules.
    command = [sys.executable, "-m", "routelog", "serve", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
