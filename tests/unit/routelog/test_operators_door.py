"""Files with tokens: whole at any time, and of their owner alone."""

from pathlib import Path
from typing import Any

import pytest

from routelog.operators_door import write_private


def test_a_file_that_is_written_anew_is_whole_at_any_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    write_private(file, b"first")
    unwritable: Any = "no bytes"
    with pytest.raises(TypeError):
        write_private(file, unwritable)
    assert file.read_bytes() == b"first"
    file.chmod(0o644)
    write_private(file, b"second")  # over what the failure left
    assert file.read_bytes() == b"second"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["token"]
