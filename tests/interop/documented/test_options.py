"""Options that pages for users name are those of the commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from interop.documented.page_snippets import BLOCK, ROOT, users_pages
from typer.core import TyperGroup
from typer.main import get_command

from routelog.__main__ import command_line

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SPAN = re.compile(r"`([^`]+)`")
COMMAND = re.compile(r"\broutelog +((?:[a-z_][\w-]* *)+)")
OF_ALL = {"--help"}
NO_CONTEXT: Any = None
# Options that pages name by themselves, of programs that are not ours.
OF_OTHERS = {
    "--py-files": "spark-submit",
    "--conf": "spark-submit",
    **dict.fromkeys(["--curve", "--growth", "--most", "--point-seconds"], "routelog.benchmarks"),
}


def options_of(words: list[str]) -> set[str]:
    """Options of a command, or of all commands of a group: the one that words begin with."""
    command: Any = get_command(command_line)
    while words and isinstance(command, TyperGroup):
        named = command.get_command(NO_CONTEXT, words[0])
        if named is None:
            break
        command, words = named, words[1:]
    return set(_options(command)) | OF_ALL


def _options(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, TyperGroup):
        for name in command.list_commands(NO_CONTEXT):
            yield from _options(command.get_command(NO_CONTEXT, name))


def commands_shown(text: str) -> Iterator[tuple[list[str], set[str]]]:
    """Commands of ours in blocks and between back-ticks: the words that they begin with, and their options.

    A form with alternatives is a command of its group.
    """
    code = [
        line for block in BLOCK.findall(text) for line in block[2].replace("\\\n", " ").splitlines()
    ]
    code += SPAN.findall(" ".join(BLOCK.sub("", text).split()))
    for line in code:
        for part in re.split(r"(?=\broutelog )", line.partition(" #")[0]):
            if found := COMMAND.match(part):
                words = found[1].split()
                yield words[:1] if " | " in part else words, set(OPTION.findall(part))


@pytest.mark.parametrize("page", users_pages())
def test_options_of_commands_that_a_page_shows_exist(page: str) -> None:
    for words, options in commands_shown((ROOT / page).read_text()):
        assert options <= options_of(words), words


@pytest.mark.parametrize("page", users_pages())
def test_options_that_a_page_names_by_themselves_are_of_some_command(page: str) -> None:
    text = " ".join(BLOCK.sub("", (ROOT / page).read_text()).split())
    named = {span.split()[0] for span in SPAN.findall(text) if OPTION.match(span)}
    assert named <= options_of([]) | set(OF_OTHERS)


def test_options_are_those_of_the_command_that_is_shown() -> None:
    text = (
        "`make x --y`, `routelog queue purge orders --no-such`, `routelog status --vhost V | top`\n"
    )
    text += "```sh\nrm x | routelog queue \\\n  tail a --follow # --not\n```\n"
    assert list(commands_shown(text)) == [
        (["queue", "tail", "a"], {"--follow"}),
        (["queue", "purge", "orders"], {"--no-such"}),
        (["status"], {"--vhost"}),
    ]
    assert "--no-such" not in options_of(["queue", "purge", "orders"])
    assert "--if-empty" in options_of(["queue"])
    assert "--if-empty" not in options_of(["queue", "tail", "a"])
