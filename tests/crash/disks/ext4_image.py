"""An ext4 file system in a file, whose power can be cut: what the block device does not have is lost."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

IMAGE_BYTES = 512 * 1024 * 1024  # sparse: the disk below holds what was written
# ext4 commits its own journal every five seconds; that would make durable what nobody has synced.
MOUNT_OPTIONS = "loop,commit=600"


class MountRefused(Exception):
    """This machine cannot make or mount an image; the text says why."""


class Ext4Image:
    """One file system, mounted at one place for all its lives.

    Attributes:
        mounted_at: where its files are.
    """

    def __init__(self, directory: Path) -> None:
        self.mounted_at = directory / "mounted"
        self._image = directory / "disk.ext4"
        self._copy = directory / "copy.ext4"
        self._is_mounted = False

    def make(self) -> None:
        """Make an empty file system and mount it.

        Raises:
            MountRefused: not root, or no loop devices.
        """
        self.mounted_at.mkdir(parents=True)
        with self._image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self._mount()

    def cut_power(self) -> None:
        """Go on with what the block device holds at this moment; nobody may have files open.

        What the system still keeps in memory for the old one goes nowhere.
        """
        _run("cp", "--sparse=always", str(self._image), str(self._copy))
        self.unmount()
        self._copy.replace(self._image)
        self._mount()

    def unmount(self) -> None:
        """Let go of it, if it is mounted."""
        if self._is_mounted:
            _run("umount", str(self.mounted_at))
            self._is_mounted = False

    def _mount(self) -> None:
        _run("mount", "-t", "ext4", "-o", MOUNT_OPTIONS, str(self._image), str(self.mounted_at))
        self._is_mounted = True


def _run(program: str, *arguments: str) -> None:
    found = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        raise MountRefused(f"{program} is not installed")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MountRefused(f"{program}: {done.stderr.strip()}")
