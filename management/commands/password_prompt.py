"""Passwords that commands ask for: at a terminal, unseen; else each is a line of standard input."""

import sys

import typer


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
