"""What commands print."""

import json

import pytest

from routelog.management.commands.terminal import printable, show


def test_what_a_terminal_would_obey_is_spelled_out() -> None:
    assert printable("a\x1b[31mé\n\u202e") == "a\\x1b[31mé\\n\\u202e"


def test_rows_are_a_table_or_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": "[bold]q", "durable": True, "tags": ["a", "b"], "of": {"name": "x"}, "extra": 1}
    show([row], ("name", "durable", "tags", "of", "missing"), as_json=False)
    header, line = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "durable", "tags", "of", "missing"]
    assert line.split() == ["[bold]q", "yes", "a,", "b", "x"]
    show([row, row], ("name",), as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [row, row]
