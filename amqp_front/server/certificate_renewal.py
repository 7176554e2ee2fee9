"""Renewal of certificates: their files are read again on SIGHUP, and every minute."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from routelog.amqp_front.server.tls import CertificateUnusable, TlsCertificates

log = logging.getLogger(__name__)

RELOAD_SECONDS = 60.0  # SIGHUP reads them at once


class CertificateRenewal:
    """The certificates of all listeners of a broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watched: dict[str, TlsCertificates] = {}  # by protocol
        self._reloading: asyncio.Task[None] | None = None

    def watch(self, protocol: str, certificates: TlsCertificates) -> None:
        """Add the certificates of another protocol."""
        self._watched[protocol] = certificates
        if self._reloading is None:
            self._reloading = self._loop.create_task(self._reload_now_and_then())

    def expiries(self) -> Mapping[str, Mapping[Path, datetime]]:
        """The expiry of certificates, by protocol and file."""
        return {protocol: each.expiries for protocol, each in self._watched.items()}

    async def reload(self) -> None:
        """Read all certificates again; unusable ones are logged, and the old ones stay in use."""
        for certificates in self._watched.values():
            try:
                await asyncio.to_thread(certificates.reload)
            except CertificateUnusable as error:
                log.error("certificates stay as they were: %s", error)

    def stop(self) -> None:
        """End the renewal."""
        if self._reloading is not None:
            self._reloading.cancel()

    async def _reload_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            await self.reload()
