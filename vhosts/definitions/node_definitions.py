"""All definitions of a node in memory, read once, and kept up with what a leader commits."""

from collections.abc import Callable, Sequence

from routelog.log_backend import Change, Lane, MetadataStore, in_turns
from routelog.vhosts.people.user_directory import UserDirectory
from routelog.vhosts.stored.global_parameters import GlobalParameters
from routelog.vhosts.stored.topology_record import TRANSIENT_PREFIX
from routelog.vhosts.vhost.vhost_directory import VHOST_PREFIXES, VhostDirectory

BINDINGS = b"bindings/", b"transient-bindings/"


class AppliedDefinitions:
    """Vhosts with what was declared in them, users with their permissions, global parameters.

    Args:
        value_of: the value that a key has, before changes; None: it has none.
    """

    def __init__(
        self,
        vhosts: VhostDirectory,
        users: UserDirectory,
        parameters: GlobalParameters,
        value_of: Callable[[bytes], bytes | None],
    ) -> None:
        self._vhosts = vhosts
        self._users = users
        self._parameters = parameters
        self._value_of = value_of

    @property
    def prefixes(self) -> tuple[bytes, ...]:
        """Of the keys of all definitions, in the order in which they are loaded."""
        return (*self._users.prefixes, *self._parameters.prefixes, *VHOST_PREFIXES)

    def apply(self, changes: Sequence[Change]) -> None:
        """Carry out changes that another node made, in its order; the store does not have them yet.

        Changes of what is no definition are passed over.

        Raises:
            MetadataCorrupt: one cannot be read, or carried out.
        """
        bound: dict[bytes, bytes] = {}  # by these changes
        for change in changes:
            before = None
            if change.key.startswith(BINDINGS):
                if change.value is not None:
                    bound[change.key] = change.value
                elif (before := bound.get(change.key)) is None:
                    before = self._value_of(change.key)
            for part in (self._users, self._parameters):
                if part.keeps(change.key):
                    part.apply(change)
            self._vhosts.apply(change, before)


class NodeDefinitions(AppliedDefinitions):
    """The definitions of a node that has a store of them.

    Args:
        store: see the class.
    """

    def __init__(
        self,
        vhosts: VhostDirectory,
        users: UserDirectory,
        parameters: GlobalParameters,
        store: MetadataStore,
    ) -> None:
        super().__init__(vhosts, users, parameters, self._stored)
        self._store = store

    def _stored(self, key: bytes) -> bytes | None:
        entry = self._store.get(key)
        return None if entry is None else entry.value

    async def load(self) -> None:
        """Read what the store has, in turns; nothing was read before, and nothing changes meanwhile.

        Raises:
            MetadataCorrupt: an entry cannot be read, or carried out.
        """
        self._users.load(self._store)
        self._parameters.load(self._store)
        await self._vhosts.load(self._store)

    async def forget_transient(self) -> Sequence[Change]:
        """Delete definitions that are not durable: their messages ended with the leader that had them.

        Call it before queues are opened.

        Returns:
            Changes that delete their records; memory is changed, the store is not. Empty at a node that never
            was in a cluster.
        """
        gone = [Change(key, None) for key, _ in self._store.scan(TRANSIENT_PREFIX)]
        async for change in in_turns(gone, Lane.STARTS):
            self.apply([change])
        return gone
