"""The benchmark of idle connections connects and leaves; here it is small, and no memory is judged."""

import pytest

from benchmarks.idle import main


def test_idle_connections_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    main(connections=20, channels=2)
    assert "20 idle connections, 2 channels each" in capsys.readouterr().out
