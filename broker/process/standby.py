"""A process that is a standby: it listens to no client, and follows until it is ended."""

import asyncio
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

import uvloop

from routelog.broker.listeners.certificate_renewal import CertificateRenewal
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.data_directory import open_logs, usable
from routelog.broker.process.run import RESTART_SECONDS_MIN, SWITCH_SECONDS
from routelog.log_backend import LogStore, keep_private, narrow
from routelog.mirror_cluster import StandbyNode
from routelog.vhosts import DeclaredPartitions


def run_standby(
    config: BrokerConfig,
    make: Callable[[LogStore], StandbyNode],
    on_ready: Callable[[], None],
    on_end: Callable[[str], NoReturn],
) -> NoReturn:
    """Follow until SIGTERM or SIGINT. What is stored stays as a crash leaves it.

    Args:
        make: called on the event loop with a store that is open and has recovered nothing.
        on_ready: called when it follows.
        on_end: ends the process, and begins another one where there is a reason for that.

    Raises:
        StartError: the data directory cannot be used.
    """
    sys.setswitchinterval(SWITCH_SECONDS)

    async def follow() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_end, "")
        begun = loop.time()
        keep_private()
        narrow(config.data_dir)
        with usable(config):
            logs = open_logs(config, loop)
            standby = make(logs)
            await standby.start(DeclaredPartitions(logs.metadata))
        renewal = CertificateRenewal(loop)
        if standby.certificates is not None:
            renewal.watch("standby", standby.certificates)
        loop.add_signal_handler(signal.SIGHUP, renewal.reload_soon)
        on_ready()
        reason = await standby.ended
        await asyncio.sleep(begun + RESTART_SECONDS_MIN - loop.time())
        on_end(reason)

    uvloop.run(follow())
    raise AssertionError("it has ended the process")
