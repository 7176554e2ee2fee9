"""What commands print: tables for people, JSON for programs, and one line when something is wrong."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from routelog.management.commands.api_address import NotReachable
from routelog.management.commands.client import AnswerRefused

EXIT_REFUSED = 1
EXIT_NOT_REACHABLE = 2  # what wrong usage of the command line exits with, too
WIDTH = 240  # of a table that goes into a file or a pipe


def printable(text: str) -> str:
    """The text with what a terminal would obey spelled out."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def show(rows: Sequence[dict[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print rows: all they hold as JSON Lines, or some columns as a table."""
    if as_json:
        for row in rows:
            typer.echo(msgspec.json.encode(row).decode())
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row.get(column))) for column in columns))
    # Nothing is folded where nobody watches: a list is often piped into a file.
    width = None if sys.stdout.isatty() else WIDTH
    Console(markup=False, highlight=False, width=width).print(table)


def _cell(value: object) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, dict):
        if "name" in value:  # of a queue or channel that a row refers to
            return printable(str(value["name"]))
        return printable(msgspec.json.encode(value).decode())
    return printable(str(value))


@contextmanager
def complaints() -> Iterator[None]:
    """Say in one line on stderr what is wrong, and exit: 1 refused, 2 not reachable or no text."""
    try:
        yield
    except AnswerRefused as error:
        complain(str(error))
        raise typer.Exit(EXIT_REFUSED) from None
    except NotReachable as error:
        complain(str(error))
        raise typer.Exit(EXIT_NOT_REACHABLE) from None
    except UnicodeError:  # which one is not repeated: it may be a password
        complain("an argument, or standard input, is not UTF-8")
        raise typer.Exit(EXIT_NOT_REACHABLE) from None


def complain(reason: str) -> None:
    """Say in one line on stderr what is wrong, in colour where somebody watches."""
    sys.stdout.flush()
    line = Text("routelog: ", style="bold red") + Text(printable(reason), style="default")
    Console(stderr=True).print(line, soft_wrap=True)


def prompt_password(user: str, *, is_new: bool = False) -> str:
    """The password of a user; one that is new is typed twice by people, and sent once by programs.

    Raises:
        typer.BadParameter: standard input has ended.
    """
    if sys.stdin.isatty():
        what = f"Password of {user}"
        return str(typer.prompt(what, hide_input=True, confirmation_prompt=is_new, err=True))
    line = sys.stdin.readline()
    if not line:
        raise typer.BadParameter(f"no password of {user}: standard input has no line for it")
    return line.rstrip("\r\n")
