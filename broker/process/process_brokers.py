"""The brokers of a node of several processes: one has the data, the others serve clients by way of it."""

import signal
from dataclasses import replace

from routelog.broker.listeners.shared_page import ProcessState
from routelog.broker.process.broker import Broker, BrokerAddress
from routelog.broker.process.data_directory import usable
from routelog.broker.process.processes import LEADER, TOLD_TO_END
from routelog.broker.sessions.definition_feed import DefinitionFeed, FedDefinitions
from routelog.broker.sessions.hosted_sessions import Leadership
from routelog.broker.sessions.process_door import LeadingProcess, ProcessDoor, door_path

# One that has ended is noticed at once, so this is for one that stands still.
LEASE_SECONDS = 5.0
CONFIRM_SECONDS = 3_600.0  # a node on its own waits for its disk, too


class ProcessLeader(Broker):
    """The process that has the data: it takes the sessions of the others, and feeds them the definitions."""

    @property
    def processes(self) -> list[ProcessState]:
        """See `Broker`; a front without a session serves nobody."""
        return [
            each if self._is_led(each.number) else replace(each, is_ready=False)
            for each in super().processes
        ]

    def _is_led(self, number: int) -> bool:
        hosted, place = self.sessions.hosted, self._place
        assert hosted is not None
        assert place is not None
        return number == LEADER or hosted.has_session(place.name(self._name, number))

    def _open(self) -> None:
        super()._open()
        self.store.vhosts.await_consumers()

    async def _listen(self) -> BrokerAddress:
        logs, place = self.store.logs, self._place
        assert place is not None
        others = [place.name(self._name, each) for each in place.page.all if each != LEADER]
        feed = DefinitionFeed(logs.metadata, self.store.definitions.prefixes)
        leadership = Leadership(
            logs.intake.leader_epoch,
            LEASE_SECONDS,
            feed=feed,
            is_ending=lambda: place.page.is_ending,
        )
        hosted = self.sessions.lead(leadership)
        hosted.barrier.on_away = self.store.vhosts.await_consumers
        hosted.barrier.on_all_back = self.store.vhosts.consumers_back
        # They may have other definitions, until they see that the process before this one has ended.
        hosted.barrier.expect(others, feed.position)
        logs.metadata_writer.on_applied = feed.changed
        logs.metadata_writer.barrier = lambda position: hosted.barrier.gate(feed.position)
        logs.metadata_writer.known = hosted.barrier.known
        self._door = ProcessDoor(door_path(self._config.data_dir), others, hosted.take)
        with usable(self._config):
            await self._door.open()
        self.sessions.tell_counts()
        return await super()._listen()

    async def stop(self) -> None:
        """See `Broker`."""
        self._door.close()
        await super().stop()


class ProcessFront(Broker):
    """A process that serves clients by way of the one that has the data."""

    async def start(self) -> BrokerAddress:
        """Wait for the process that has the data, then listen; see `Broker`."""
        self._open()
        self._begin_front()
        store, place = self.store, self._place
        assert place is not None
        # When it cannot carry one out, it ends: the parent starts another one, which begins with nothing.
        fed = FedDefinitions(store.vhosts, store.users, store.parameters, _failed)
        leader, own = place.name(self._name, LEADER), place.name(self._name)
        leading = LeadingProcess(door_path(self._config.data_dir), leader, own, fed)
        self.sessions.follow(leading, own, LEASE_SECONDS, CONFIRM_SECONDS, fed)
        await self._serves.wait()
        return await self._take_clients()


def _failed(_: Exception) -> None:
    signal.raise_signal(TOLD_TO_END)
