"""Renewal of certificates: their files are read again on SIGHUP, and every minute."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

log = logging.getLogger(__name__)

RELOAD_SECONDS = 60.0  # SIGHUP reads them at once


class Certificates(Protocol):
    """Certificates whose files may be renewed."""

    @property
    def expiries(self) -> Mapping[Path, datetime]:
        """When they expire, by file."""

    def reload(self) -> None:
        """Load the files again, for new connections; those that are there stay.

        Raises:
            ValueError: one of the files cannot be used; nothing has changed.
        """


class CertificateRenewal:
    """The certificates of all listeners of a process."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watched: dict[str, Certificates] = {}  # by protocol
        self._reloading: asyncio.Task[None] | None = None
        self._asked: set[asyncio.Task[None]] = set()

    def watch(self, protocol: str, certificates: Certificates) -> None:
        """Add the certificates of another protocol."""
        self._watched[protocol] = certificates
        if self._reloading is None:
            self._reloading = self._loop.create_task(self._reload_now_and_then())

    def expiries(self) -> Mapping[str, Mapping[Path, datetime]]:
        """The expiry of certificates, by protocol and file."""
        return {protocol: each.expiries for protocol, each in self._watched.items()}

    def reload_soon(self) -> None:
        """Read them now, in a thread: see `reload`."""
        task = self._loop.create_task(self.reload())
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def reload(self) -> None:
        """Read all certificates again; unusable ones are logged, and the old ones stay in use."""
        for certificates in list(self._watched.values()):  # another one may begin to listen
            try:
                await asyncio.to_thread(certificates.reload)
            except ValueError as error:
                log.error("certificates stay as they were: %s", error)

    def stop(self) -> None:
        """End the renewal."""
        if self._reloading is not None:
            self._reloading.cancel()

    async def _reload_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            await self.reload()
