"""Certificates of several protocols, read again."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import pytest

from routelog.broker.listeners.certificate_renewal import CertificateRenewal


class Reloaded:
    """See `Certificates`."""

    expiries: Mapping[Path, datetime] = {}

    def __init__(self, act: Callable[[], None] = lambda: None) -> None:
        self._act = act
        self.count = 0

    def reload(self) -> None:
        self.count += 1
        self._act()


@pytest.fixture
async def renewal():
    renewal = CertificateRenewal(asyncio.get_running_loop())
    yield renewal
    renewal.stop()


def fail() -> None:
    raise ValueError("made to fail")


async def test_unusable_certificates_are_logged_and_hold_up_no_others(
    renewal: CertificateRenewal, caplog: pytest.LogCaptureFixture
) -> None:
    last = Reloaded()
    renewal.watch("amqp/ssl", Reloaded(fail))
    renewal.watch("https", last)
    await renewal.reload()
    assert last.count == 1
    assert "certificates stay as they were: made to fail" in caplog.text


async def test_a_protocol_may_be_added_while_they_are_read(renewal: CertificateRenewal) -> None:
    added = Reloaded()
    renewal.watch("amqp/ssl", Reloaded(lambda: renewal.watch("https", added)))
    await renewal.reload()
    await renewal.reload()
    assert added.count == 1
