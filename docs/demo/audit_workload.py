"""Real work that makes audit events of many kinds."""

from __future__ import annotations

import ast
import glob
import importlib
import json
import os
import pickle
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path

# They open a browser or a window, print a poem, or are large and about testing.
_NOT_IMPORTED = {"antigravity", "idlelib", "test", "this", "tkinter", "turtle", "turtledemo"}
_SOURCES_COMPILED_MAX = 150
_FILES_SHUFFLED = 1_500
_PROGRAMS_STARTED = 8
_SOCKETS_CONNECTED = 400


def run_workload(scratch: Path) -> None:
    """Do all of it; writes below `scratch` only."""
    import_standard_library()
    read_sources(Path(os.__file__).parent)
    shuffle_files(scratch)
    start_programs()
    connect_sockets()
    use_database(scratch / "workload.sqlite")


def import_standard_library() -> None:
    """Import every public module of the standard library that this machine has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for name in sorted(sys.stdlib_module_names - _NOT_IMPORTED):
            if not name.startswith("_"):
                try:
                    importlib.import_module(name)
                except ImportError:
                    continue  # for another operating system


def read_sources(library: Path) -> None:
    """List the library's folders, read its files, compile some."""
    compiled = 0
    for folder in (library, *sorted(path for path in library.iterdir() if path.is_dir())):
        if folder.name in ("site-packages", "dist-packages", "__pycache__", "test"):
            continue
        os.listdir(folder)
        for source in sorted(glob.glob("*.py", root_dir=folder)):
            text = (folder / source).read_bytes()
            if compiled < _SOURCES_COMPILED_MAX and len(text) < 20_000:
                ast.parse(text)
                compiled += 1


def shuffle_files(scratch: Path) -> None:
    """Write, copy, rename, list and remove files."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        for number in range(_FILES_SHUFFLED):
            first = folder / f"{number}.json"
            first.write_text(json.dumps({"number": number}))
            shutil.copyfile(first, folder / f"{number}.copy")
            os.chmod(first, 0o600)
            os.rename(first, folder / f"{number}.renamed")
            # Leading digits are spread unevenly: some of these files are opened far more often.
            with (scratch / f"ledger-{str(number)[0]}.txt").open("a") as ledger:
                ledger.write(f"{number}\n")
            if number % 10 == 0:
                os.mkdir(folder / f"folder-{number}")
                os.listdir(folder)
        for path in folder.glob("*.copy"):
            os.remove(path)


def start_programs() -> None:
    """Start a few programs and wait for them."""
    for number in range(_PROGRAMS_STARTED):
        command = [sys.executable, "-I", "-S", "-c", f"print({number})"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def connect_sockets() -> None:
    """Talk to an own server on a loopback port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        for _ in range(_SOCKETS_CONNECTED):
            with socket.create_connection(address) as client:
                accepted, _ = server.accept()
                with accepted:
                    client.sendall(b"ping")
                    accepted.recv(4)


def use_database(path: Path) -> None:
    """Open a database and unpickle what comes out of it."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("create table fractions (value blob)")
        row = (pickle.dumps(Fraction(1, 3)),)
        connection.executemany("insert into fractions values (?)", [row] * 50)
        for (value,) in connection.execute("select value from fractions"):
            pickle.loads(value)
    finally:
        connection.close()
