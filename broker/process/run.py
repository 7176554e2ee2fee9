"""A broker's process, from its start until SIGTERM or SIGINT."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NoReturn

import uvloop

from routelog.broker.loop.garbage_pace import GarbagePace
from routelog.broker.process.broker import STOPPED, Broker, BrokerAddress
from routelog.broker.process.mirrored_broker import GONE, MirroredBroker
from routelog.broker.process.process_brokers import ProcessFront
from routelog.broker.process.processes import TOLD_TO_END
from routelog.log_backend import SystemClock

log = logging.getLogger(__name__)

END_SECONDS_MAX = 15.0  # for a node of a cluster to end in order
RESTART_SECONDS_MIN = 1.0  # between two starts of a node of a cluster
SWITCH_SECONDS = 0.0005  # so that the journal's thread gets its turn soon after a sync

Doors = Callable[[Broker, BrokerAddress], AbstractAsyncContextManager[None]]


def run(
    make: Callable[[], Broker],
    on_ready: Callable[[BrokerAddress], None],
    *,
    doors: Doors,
    watch: Doors,
    on_end: Callable[[str], NoReturn],
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Args:
        make: called on the event loop; makes it.
        on_ready: called when connections are accepted.
        doors: what else to open while it takes clients, and to close before it stops.
        watch: the same, while it listens: also as a node that follows.
        on_end: ends the process of a node of a cluster, and begins another one where there is reason to.

    Raises:
        StartError: it cannot start.
    """
    sys.setswitchinterval(SWITCH_SECONDS)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        with GarbagePace(loop, SystemClock()) as garbage:
            stopped = asyncio.Event()

            def heed() -> None:
                for number in (signal.SIGTERM, signal.SIGINT, TOLD_TO_END):
                    loop.add_signal_handler(number, stopped.set)

            broker = make()
            # A front that waits for its leader has nothing to be written: it ends by the signal.
            if not isinstance(broker, ProcessFront):
                heed()

            def ready(address: BrokerAddress) -> None:
                heed()
                loop.add_signal_handler(signal.SIGHUP, broker.listeners.renewal.reload_soon)
                garbage.begin()
                on_ready(address)

            if isinstance(broker, MirroredBroker):
                reason = await _run_mirrored(broker, doors, watch, ready, stopped)
                on_end(reason)  # what a thread waits for may never come
            address = await broker.start()
            try:
                async with watch(broker, address), doors(broker, address):
                    ready(address)
                    await stopped.wait()
                    log.info("stopping")
            finally:
                await broker.stop()

    uvloop.run(serve())


async def _run_mirrored(
    broker: MirroredBroker,
    doors: Doors,
    watch: Doors,
    ready: Callable[[BrokerAddress], None],
    stopped: asyncio.Event,
) -> str:
    """Follow, lead when that is decided, and end; returns why the process has to start again, or nothing."""
    mirror, loop, clock = broker.mirror, asyncio.get_running_loop(), SystemClock()
    begun, elected_at = loop.time(), 0.0
    epoch: asyncio.Future[int] = loop.create_future()
    ends = asyncio.Event()

    def serve(number: int) -> None:
        nonlocal elected_at
        if epoch.done():
            broker.go_on()  # it was to hand over, and nobody took it
        else:
            elected_at = clock.thread_seconds()
            epoch.set_result(number)

    async def lead(address: BrokerAddress) -> None:
        await broker.lead(await epoch)
        async with doors(broker, address):
            took = clock.thread_seconds() - elected_at
            log.info(
                "this node takes clients, %.0f ms of a processor behind its election", took * 1_000
            )
            await ends.wait()

    mirror.on_serve, mirror.on_stop_serving = serve, broker.suspend
    address = await broker.follow()
    if address is None:
        await mirror.part(starts_again=True)
        return mirror.ended.result()
    async with watch(broker, address):
        ready(address)
        leading = loop.create_task(lead(address))
        stop = loop.create_task(stopped.wait())
        await asyncio.wait((leading, stop, mirror.ended), return_when=asyncio.FIRST_COMPLETED)
        if leading.done():
            leading.result()  # it could not
        reason = mirror.ended.result() if mirror.ended.done() else ""
        log.info("stopping%s", f", to start again: {reason}" if reason else "")
        ends.set()

        async def leave() -> None:
            await broker.leave(
                f"{reason}, and this node starts again: {GONE}" if reason else STOPPED
            )
            if epoch.done():
                await leading

        # To be told to stop is to hand over first: clients may take seconds to answer that they are closed.
        hand_over = [] if reason else [mirror.drain]
        for end in (*hand_over, leave, mirror.aclose):
            try:
                async with asyncio.timeout(END_SECONDS_MAX):
                    await end()
            except TimeoutError:
                log.warning("something waits for what does not come; the process ends without it")
    if reason:
        await asyncio.sleep(begun + RESTART_SECONDS_MIN - loop.time())
        if stopped.is_set():
            reason = ""  # told to stop meanwhile: it does not start again
    await mirror.part(starts_again=bool(reason))
    return reason
