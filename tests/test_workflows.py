"""The workflows of `.github/`: the commands that they call exist, and what they use of others is fixed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text())
    assert used
    assert not [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", each)]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_commands_of_make_are_there(workflow: Path) -> None:
    text = workflow.read_text()
    called = set(re.findall(r"\bmake ([a-z][a-z-]*)", text))
    for listed in re.findall(r"^ +run:\n((?: +- .*\n)+)", text, re.M):
        called |= {line.split()[1] for line in listed.splitlines()}
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))
    assert called <= targets


def test_all_that_is_long_runs_each_night() -> None:
    nightly = (ROOT / ".github/workflows/nightly.yml").read_text()
    for command in ("test-long", "crash", "faults", "simulate", "model", "api", "interop"):
        assert re.search(rf"^ +- {command}\b", nightly, re.M), command
