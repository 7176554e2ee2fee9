"""What docs/messaging/patterns.md shows in Node, Java and Go prints what its Python prints."""

from __future__ import annotations

import os
import subprocess

import pytest
from interop.documented.page_snippets import ROOT
from interop.documented.readers_machine import visited

pytestmark = [
    pytest.mark.long,
    pytest.mark.interop,
    pytest.mark.differs_from_rabbitmq("a machine of its own"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can make a machine"),
]

PAGE = "docs/messaging/patterns.md"


def printed(language: str) -> list[str]:
    """What the program of the page in a language prints; several workers print in any order."""
    done = visited(PAGE, language=language)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


@pytest.fixture(scope="module", autouse=True)
def _client_libraries() -> None:
    subprocess.run([ROOT / ".ci" / "client-libraries"], check=True)


@pytest.fixture(scope="module")
def pythons() -> list[str]:
    """What the program in Python prints."""
    return printed("python")


@pytest.mark.parametrize("language", ["js", "java", "go"])
def test_a_program_prints_what_the_one_in_python_prints(language: str, pythons: list[str]) -> None:
    assert len(pythons) == 12
    assert printed(language) == pythons
