"""An operator's program that is told who leads, such as one that moves an address to the leader's machine."""

import asyncio
import logging
import os
import signal
from collections.abc import Sequence

log = logging.getLogger(__name__)

HOOK_SECONDS_MAX = 10.0


class LeaderHook:
    """Runs a program when another node leads. While it runs, only the last change is remembered.

    Args:
        command: the program and its first arguments; two follow, the names of this node and of the leader.
            Empty: nothing is run.
        node: this one's name.
    """

    def __init__(self, command: Sequence[str], node: str) -> None:
        self._command = command
        self._node = node
        self._leader = ""
        self._task: asyncio.Task[None] | None = None

    def leads(self, leader: str) -> None:
        """A node leads: tell the program, unless it was told of that node last."""
        if not self._command or leader == self._leader:
            return
        self._leader = leader
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._tell())

    async def aclose(self) -> None:
        """Wait for a program that runs."""
        if self._task is not None:
            await self._task

    async def _tell(self) -> None:
        told = ""
        while told != self._leader:
            told = self._leader
            await self._run(told)

    async def _run(self, leader: str) -> None:
        name = self._command[0]
        try:
            # In a session of its own, so that it ends together with what it has started.
            program = await asyncio.create_subprocess_exec(
                *self._command,
                self._node,
                leader,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            log.error("on_leader: %s cannot be run: %s", name, error.strerror)
            return
        try:
            async with asyncio.timeout(HOOK_SECONDS_MAX):
                status = await program.wait()
        except TimeoutError:
            log.error("on_leader: %s is ended, as it takes more than %g s", name, HOOK_SECONDS_MAX)
        else:
            log.log(
                logging.ERROR if status else logging.INFO,
                "on_leader: %s, told that %s leads, ended with status %d",
                name,
                leader,
                status,
            )
        finally:
            if program.returncode is None:
                os.killpg(program.pid, signal.SIGKILL)
                await program.wait()
