"""A machine of its own for the reader of one page, on which the page's snippets run in their order.

    PYTHONPATH=tests .venv/bin/python -m interop.documented.readers_machine docs/messaging/patterns.md [go]

It has the files of this machine, of which it changes copies in memory, a loopback interface of its own, and
one broker on the ports that pages name: nothing in a snippet is replaced. The reader is the superuser, in a
copy of the sources in which `make serve` was typed; `systemctl` starts and stops that broker.

- Shell snippets have what earlier ones exported. The first command that fails ends them. Questions for a
  password are answered with `secret`.
- Python snippets of a page run in one namespace, as if they were pasted one after the other.
- Snippets of configuration and JSON are read.
- A block without a language right behind a snippet is what the snippet prints.
- Snippets of a page in another language are one program, which runs when that language is asked for.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml
from interop.documented.page_exceptions import NOT_RUN, READ_BEFORE, READERS_HAVE
from interop.documented.page_snippets import ROOT, Snippet, snippets
from pika.adapters.blocking_connection import BlockingChannel

from routelog.broker.node.configuration import load_configuration

# Everything ends with the first process, which is one that waits for orphans.
NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
FIRST_PROCESS = ["bash", "-c", '"$0" "$@"; exit $?']
MODULE = "interop.documented.readers_machine"
INSIDE = "--inside"

MEMORY = Path("/mnt")  # where the machine's own files are; any folder that is there will do
SERVICE = Path("/usr/local/bin/systemctl")
SERVICE_TEXT = """#!/bin/sh
# As much of systemd as commands of pages need.
log=/var/log/routelog pid=/run/routelog.pid
case $1 in stop | restart)
    kill "$(cat $pid)"
    while kill -0 "$(cat $pid)" 2>/dev/null; do sleep 0.05; done
esac
case $1 in start | restart)
    : >$log  # at once: it has the ready line of the start before
    routelog serve --host 127.0.0.1 --data-dir /var/lib/routelog >>$log 2>&1 </dev/null &
    echo $! >$pid
    until grep -q '^routelog ready' $log; do
        kill -0 $! || { cat $log >&2; exit 1; }
        sleep 0.02
    done
esac
"""
CURL_SETTINGS = "fail\nsilent\nshow-error\n"  # an error of the HTTP API is one of the command
CLIENTS = ROOT / "build" / "clients"  # from .ci/client-libraries
JARS = ":".join(str(jar) for jar in (CLIENTS / "lib").glob("*.jar"))
# By language: where its program is written to, and what runs it there.
PROGRAMS = {
    "python": (CLIENTS / "patterns.py", [sys.executable, "patterns.py"]),
    "js": (CLIENTS / "patterns.mjs", ["node", "patterns.mjs"]),
    "java": (
        CLIENTS / "patterns.jsh",
        ["bash", "-c", f"jshell -s --class-path {JARS} - <patterns.jsh"],
    ),
    "go": (CLIENTS / "go" / "patterns.go", ["go", "run", "."]),
}
SECONDS_MAX = 900  # on a machine with other work
SECRETS = "secret\n" * 10
# A new broker fills two files with zeros; readers of logs type slower than these tests.
SETTINGS = {"ROUTELOG_JOURNAL_FILE_BYTES": "16777216", "ROUTELOG_FLUSH_SECONDS": "0.1"}


class SnippetFailed(Exception):
    """A snippet does not do what its page says."""


def on_a_machine(*pages: str, language: str = "") -> list[str]:
    """The command that reads pages, or runs the program of one in a language, on a machine of its own."""
    return [*NAMESPACES, *FIRST_PROCESS, sys.executable, "-m", MODULE, INSIDE, language, *pages]


def visited(*pages: str, language: str = "") -> subprocess.CompletedProcess[str]:
    """Do so, and tell what came of it."""
    return subprocess.run(
        on_a_machine(*pages, language=language),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def enter() -> None:
    """Go, within namespaces of our own, where every file can be changed and is as it was for all others."""
    _run("ip", "link", "set", "lo", "up")
    _run("mount", "-t", "tmpfs", "tmpfs", MEMORY)
    root = MEMORY / "root"
    root.mkdir()
    places = sorted({_mount_point(Path(each)) for each in ("/", ROOT, sys.prefix, sys.base_prefix)})
    for at, place in enumerate(places):
        upper, work = MEMORY / f"upper{at}", MEMORY / f"work{at}"
        upper.mkdir()
        work.mkdir()
        options = f"lowerdir={place},upperdir={upper},workdir={work}"
        _run("mount", "-t", "overlay", "overlay", "-o", options, f"{root}{place}")
    for kernels in ("/dev", "/sys"):
        _run("mount", "--rbind", kernels, f"{root}{kernels}")
    _run("mount", "-t", "proc", "proc", root / "proc")
    os.chroot(root)
    os.chdir(ROOT)


def _mount_point(path: Path) -> Path:
    return path if os.path.ismount(path) else _mount_point(path.parent)


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True)


class Reader:
    """Does what pages say, one after the other."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {}
        self._environment = {**os.environ, **SETTINGS, "PWD": str(ROOT)}
        self._prepare()

    def read(self, page: str) -> None:
        """Run the snippets of a page.

        Raises:
            SnippetFailed: one did not do what it should.
        """
        if page in READ_BEFORE:
            self.read(READ_BEFORE[page])
        self._names = {"__name__": "__main__"}
        self._shell(READERS_HAVE.get(page, ""))
        for snippet in snippets(page):
            try:
                printed = self._do(snippet, page)
                if printed is not None and snippet.prints is not None:
                    _compare(printed, snippet.prints)
                self._look_at_channels()
            except Exception as failure:
                why = f"{type(failure).__name__}: {failure}"
                raise SnippetFailed(
                    f"{page}, line {snippet.line}\n{snippet.text}\n{why}"
                ) from failure
        self._shell("kill -0 $(cat /run/routelog.pid)")  # the broker is still there

    def run_program(self, page: str, language: str) -> None:
        """Run the program that the page's snippets of a language are.

        Raises:
            SnippetFailed: it failed.
        """
        file, command = PROGRAMS[language]
        file.write_text(
            "\n".join(each.text for each in snippets(page) if each.language == language)
        )
        ended = subprocess.run(command, cwd=file.parent, stdin=subprocess.DEVNULL, check=False)
        if ended.returncode:
            raise SnippetFailed(f"{page}, the program in {language}: exit code {ended.returncode}")

    def _prepare(self) -> None:
        shutil.rmtree(ROOT / "data", ignore_errors=True)
        (ROOT / "data").symlink_to("/var/lib/routelog")
        Path("/var/lib/routelog").mkdir(parents=True)
        (Path.home() / ".curlrc").write_text(CURL_SETTINGS)
        SERVICE.write_text(SERVICE_TEXT)
        program = SERVICE.with_name("routelog")
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m routelog "$@"\n')
        for each in (SERVICE, program):
            each.chmod(0o755)
        self._shell("systemctl start routelog")

    def _do(self, snippet: Snippet, page: str) -> str | None:
        """What the snippet prints; None: it is not run, or not all of it."""
        excepted = tuple(NOT_RUN.get(page, ()))
        if snippet.language == "sh":
            commands = _commands(snippet.text)
            those = [each for each in commands if not each.startswith(excepted)]
            printed = self._shell("\n".join(those))
            return printed if those == commands else None
        if snippet.language in PROGRAMS and snippet.language != "python":
            return None
        if any(line.strip().startswith(excepted) for line in snippet.text.splitlines()):
            return None
        if snippet.language == "python":
            return self._python(snippet, page)
        READ[snippet.language](snippet.text)
        return None

    def _shell(self, script: str) -> str:
        end = Path("/run/environment")
        script = f"trap 'env --null >{end}' EXIT\n{script}"
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script],
            cwd=self._environment["PWD"],
            env=self._environment,
            input=SECRETS,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SnippetFailed(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
        kept = end.read_text().split("\0")
        self._environment = dict(each.split("=", 1) for each in kept if each)
        return done.stdout

    def _python(self, snippet: Snippet, page: str) -> str:
        printed = io.StringIO()
        # Line numbers of errors are those of the page.
        program = compile("\n" * (snippet.line - 1) + snippet.text, page, "exec")
        with contextlib.redirect_stdout(printed):
            exec(program, self._names)
        return printed.getvalue()

    def _look_at_channels(self) -> None:
        """What a channel did without waiting was not refused."""
        for name, channel in self._names.items():
            if isinstance(channel, BlockingChannel) and channel.connection.is_open:
                channel.exchange_declare("amq.topic", passive=True)
                assert channel.is_open, name


def _commands(text: str) -> list[str]:
    """The commands of a shell snippet: those of several lines as one."""
    commands: list[str] = []
    begun = ""
    for line in text.splitlines():
        begun += f"{line}\n"
        read = subprocess.run(["bash", "-n", "-c", begun], capture_output=True, check=False)
        whole = not read.returncode and not read.stderr and not line.endswith("\\")
        if whole:
            commands += [begun.strip()] if begun.strip() else []
            begun = ""
    return [*commands, begun] if begun else commands


def _compare(printed: str, shown: str) -> None:
    if [line.rstrip() for line in printed.splitlines()] != shown.splitlines():
        raise SnippetFailed(f"it prints\n{printed}")


def _read_configuration(text: str) -> None:
    tomllib.loads(text)
    load_configuration(file_name="routelog.toml", file_text=text, environment={}, options={})


READ = {"json": json.loads, "toml": _read_configuration, "yaml": yaml.safe_load}


def _main(language: str, *pages: str) -> None:
    enter()
    reader = Reader()
    for page in pages:
        if language:
            reader.run_program(page, language)
        else:
            reader.read(page)


if __name__ == "__main__":
    if sys.argv[1] != INSIDE:
        pages = [each for each in sys.argv[1:] if each not in PROGRAMS]
        chosen = [each for each in sys.argv[1:] if each in PROGRAMS]
        sys.exit(subprocess.run(on_a_machine(*pages, language="".join(chosen))).returncode)
    try:
        _main(*sys.argv[2:])
    except SnippetFailed as failed:
        sys.exit(f"{failed}")
