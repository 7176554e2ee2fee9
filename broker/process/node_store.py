"""What a node keeps: its log store, the definitions that are read into vhosts and users, remote storage."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from hashlib import scrypt

from routelog.broker.identity.default_passwords import warn_of_default_passwords
from routelog.broker.loop.cork import Cork
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.data_directory import (
    DefinitionsFile,
    StartError,
    given_definitions,
    open_logs,
    usable,
)
from routelog.broker.process.event_log import EventLog
from routelog.broker.process.front import Front
from routelog.broker.process.process_share import definitions_bytes
from routelog.broker.process.processes import ProcessPlace
from routelog.broker.waiting.gate import Gate
from routelog.log_backend import (
    Backups,
    Change,
    Clock,
    EpochBeginning,
    LogStore,
    NoLogStore,
    RemoteStorage,
    SystemDisk,
    check_outside,
    first_unchecked,
    narrow,
    open_bucket,
    random_key,
    scheduler_of,
    unawaited,
    without_secrets,
)
from routelog.vhosts import (
    WRONG,
    AuthenticationBusy,
    DefinitionsImport,
    GlobalParameters,
    GroupExpiry,
    NodeDefinitions,
    PasswordVerifier,
    UserDirectory,
    VhostDirectory,
    durability_level,
)

log = logging.getLogger(__name__)

ENTRY_CHANGES = 1_000  # of one entry of the journal: some 100 KB

_IMPORTED_KEY = b"definitions-file"  # a salt, and scrypt of the content that was imported last
_SALT_BYTES = 16


class NodeStore:
    """What a node keeps, from the moment on when it has its directory: `recover`, then `begin`.

    Attributes:
        gate: where publishers wait.
        remote: copies segments to remote storage; None: it has none, or nothing has begun.
        definitions: what is stored; a process without data has none.

    Args:
        place: which of several processes of its node this is; None: it is the node.

    Raises:
        StartError: the data directory cannot be used.
    """

    def __init__(
        self, config: BrokerConfig, clock: Clock, front: Front, place: ProcessPlace | None
    ) -> None:
        self._config = config
        self._clock = clock
        self._loop = loop = asyncio.get_running_loop()
        self._gone: Sequence[Change] = ()
        self._upkeep: list[Callable[[], object]] = []  # what ends it
        self.remote: RemoteStorage | None = None
        has_data = place is None or place.leads
        if has_data:
            self.logs = logs = self._take_directory()
        else:
            has_remote = bool(config.remote_storage)
            self.logs = logs = NoLogStore(
                clock,
                loop,
                SystemDisk(),
                config.data_dir,
                config.memory_tail_bytes,
                has_remote=has_remote,
            )
        self.cork = Cork()
        self.scheduler = scheduler_of(loop)
        self.scheduler.around = self.cork.run
        self.gate = Gate(loop)
        writer = logs.metadata_writer
        self.passwords = PasswordVerifier(clock.monotonic, key=random_key())
        self.users = UserDirectory(writer, self.passwords.hash)
        self.parameters = GlobalParameters(writer)
        self.vhosts = VhostDirectory(
            logs,
            writer,
            self.scheduler,
            loop.call_later,
            default_durability=durability_level(config.default_durability),
            queues_max=config.queues_max,
            disabled_types=config.disabled_queue_types,
            default_vhost=config.default_vhost,
            histories_bytes_max=config.histories_bytes_max,
            definitions_bytes_max=definitions_bytes(config),
            listeners_of=front.listeners_of,
            relaxed_redeclaration=config.relaxed_redeclaration,
            has_fronts=place is not None,
            # A front may hear that all end, and close its clients, before this process does.
            is_ending=lambda: place is not None and place.page.is_ending,
        )
        self.vhosts.budget.limits_of = self.users.limits
        self.vhosts.write_deletion = self.users.clear_vhost
        self.users.check_vhost = self.vhosts.get
        if has_data:
            self.definitions = NodeDefinitions(
                self.vhosts, self.users, self.parameters, logs.metadata
            )
        self._event_log = EventLog(loop.call_later)
        self.vhosts.events.watch = self._event_log.write

    def _take_directory(self) -> LogStore:
        config = self._config
        narrow(config.data_dir)
        with usable(config):
            url = config.remote_storage
            self._bucket = open_bucket(url, SystemDisk()) if url else None
            if url:
                check_outside(url, config.data_dir)
            return open_logs(config, self._loop)

    async def recover(self) -> None:
        """Open what is stored, and replay the journal; the definitions are loaded."""
        logs, vhosts = self.logs, self.vhosts
        self._gone = await self.definitions.forget_transient()
        await vhosts.open_logs()
        replayed = logs.recover()
        await vhosts.recovered()
        queues = sum(len(vhost.queues) for vhost in vhosts.all())
        counts = len(vhosts.all()), queues, len(self.users.users()), replayed
        text = "recovered: %d virtual hosts, %d queues, %d users, %d journal entries"
        log.info(text, *counts)

    async def begin(
        self, epoch: int, definitions: DefinitionsFile | None, *, goes_on: bool = False
    ) -> None:
        """Begin to write: this node leads, or is on its own.

        Args:
            definitions: what to import, unless it is what was imported last; None: the default user and
                vhost are made.
            goes_on: in the place of another one, where clients are: an import that is refused ends nothing,
                unless it is the first one.

        Raises:
            StartError, InvalidDefinition, InvalidName: they cannot be.
        """
        logs, vhosts, gone = self.logs, self.vhosts, self._gone
        logs.start(epoch)
        for first in range(0, len(gone), ENTRY_CHANGES):
            unawaited(logs.metadata_writer.submit(gone[first : first + ENTRY_CHANGES]))
        self._start_remote()
        await vhosts.load_memories()
        await self._populate(definitions, goes_on=goes_on)
        group_expiry = GroupExpiry(
            vhosts.all, self._clock.monotonic, self._loop.call_later, self.scheduler
        )
        group_expiry.start()
        warning = self._loop.create_task(
            warn_of_default_passwords(self.users, self.passwords, self._config.loopback_rule)
        )
        self._upkeep += group_expiry.stop, warning.cancel

    def _start_remote(self) -> None:
        logs, bucket = self.logs, self._bucket
        epoch, next_number = logs.intake.leader_epoch, self.vhosts.next_partition
        beginning = EpochBeginning.now(epoch, logs.partitions, next_number)
        if bucket is None:
            first_unchecked(logs.shard, beginning)
            return
        self.remote = RemoteStorage(
            logs.shard,
            bucket,
            beginning,
            reads=logs.remote_reads,
            address=without_secrets(self._config.remote_storage),
            bytes_per_second=self._config.remote_storage_bytes_per_second,
        )
        logs.on_removed = self.remote.removed
        self.remote.start(self._loop)

    async def _populate(self, definitions: DefinitionsFile | None, *, goes_on: bool) -> None:
        config, vhosts, users = self._config, self.vhosts, self.users
        if definitions is not None:
            # Who brings his own users wants no guest.
            await self.parameters.name_cluster(random_key())
            try:
                await self._import(definitions)
            except (StartError, AuthenticationBusy, *WRONG) as error:
                if not (goes_on and vhosts.all()):
                    raise
                log.error("this node goes on without the definitions of its file: %s", error)
            return
        if not vhosts.all():
            await vhosts.add(config.default_vhost)
            await self.parameters.name_cluster(random_key())
        await users.create_default_user(
            config.default_user, config.default_password.encode(), config.default_vhost
        )

    async def _import(self, definitions: DefinitionsFile) -> None:
        # Once: another leader, and a process in the place of one that died, would take back what operators
        # have changed since, and the users that they have deleted.
        content = await asyncio.to_thread(definitions)
        last = self.logs.metadata.get(_IMPORTED_KEY)
        salt = random_key()[:_SALT_BYTES] if last is None else bytes(last.value[:_SALT_BYTES])
        digest = await asyncio.to_thread(_digest, content, salt)
        if last is not None and last.value == digest:
            return
        read = await asyncio.to_thread(given_definitions, self._config, content)
        await DefinitionsImport(self.vhosts, self.users, self.parameters).run(read)
        await self.logs.metadata_writer.submit([Change(_IMPORTED_KEY, digest)])

    @property
    def remote_failure(self) -> str:
        """Why segments are not copied to remote storage, or readers wait for it; empty: nothing is wrong."""
        copying = "" if self.remote is None else self.remote.failure
        return copying or self.logs.remote_reads.failure

    def backups(self, node: str, version: str) -> Backups:
        """What makes backups of it; its owner closes it before the broker stops."""
        config = self._config
        return Backups(
            self.logs.copies,
            SystemDisk(),
            self._clock,
            self._loop,
            node=node,
            version=version,
            remote_storage=without_secrets(config.remote_storage),
            bytes_per_second=config.backup_bytes_per_second,
        )

    async def aclose(self) -> None:
        """Write what is needed, and let go of the files."""
        self._event_log.stop()
        for end in self._upkeep:
            end()
        self.passwords.close()
        if self.remote is not None:
            await self.remote.aclose()
        await self.logs.aclose()


def _digest(content: bytes, salt: bytes) -> bytes:
    # Slow, as hashes of passwords are: the content may have some, and copies of the metadata have the digest.
    return salt + scrypt(content, salt=salt, n=2**14, r=8, p=1)
