"""Global parameters: values that operators and their tools keep with the node, by name::

key                       value, JSON
global-parameters/<name>  {"version":1,"name":…,"value":…}
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from routelog.log_backend import Change, MetadataCorrupt, MetadataWriter
from routelog.vhosts.errors import InvalidParameter, ParameterNotFound
from routelog.vhosts.stored.stored_definitions import StoredDefinitions, key_names
from routelog.vhosts.stored.topology_record import record_key

CLUSTER_ID_BYTES = 16
PARAMETERS_MAX = 1_000  # they are all in memory
NAME_BYTES_MAX = 255
VALUE_BYTES_MAX = 65_536
CLUSTER_NAME = "cluster_name"  # where RabbitMQ keeps it, and its definitions have it
CLUSTER_ID = "internal_cluster_id"  # RabbitMQ's, which its tools tell clusters apart by
CLUSTER_NAME_BYTES_MAX = 255  # it stands in connection.start, which has 4 KiB


class _ParameterRecord(msgspec.Struct, frozen=True):
    name: str
    value: Any
    version: Literal[1] = 1


class GlobalParameters(StoredDefinitions):
    """The global parameters of a node."""

    def __init__(self, writer: MetadataWriter) -> None:
        super().__init__(writer, b"global-parameters/")
        self._values: dict[str, object] = {}

    def apply(self, change: Change) -> None:
        """See `StoredDefinitions`."""
        if change.value is None:
            (name,) = key_names(change.key)
            self._values.pop(name, None)
            return
        try:
            record = msgspec.json.decode(change.value, type=_ParameterRecord)
        except msgspec.MsgspecError as error:
            raise MetadataCorrupt(f"{change.key!r}: {error}") from error
        self._values[record.name] = record.value

    def all(self) -> dict[str, object]:
        """All values by name, in the order of the names."""
        return dict(sorted(self._values.items()))

    def get(self, name: str) -> object:
        """A value.

        Raises:
            ParameterNotFound: there is none of this name.
        """
        if name not in self._values:
            raise ParameterNotFound(name)
        return self._values[name]

    def cluster_name(self, unnamed: str) -> str:
        """What clients are told that the cluster is called; until somebody names it, what is given."""
        named = self._values.get(CLUSTER_NAME)
        return named if isinstance(named, str) else unnamed

    async def put(self, name: str, value: object) -> None:
        """Set a value; durable when this returns.

        Raises:
            InvalidParameter: the name or the value is too long, or there are too many.
        """
        check_parameter(name, value)
        self.check_room([name])
        encoded = msgspec.json.encode(_ParameterRecord(name, value))
        await self.change(Change(_key(name), encoded))

    def check_room(self, names: Iterable[str]) -> None:
        """Refuse more values than there may be.

        Raises:
            InvalidParameter: there are too many, with this one of those that are to come.
        """
        new = [name for name in names if name not in self._values]
        room = PARAMETERS_MAX - len(self._values)
        if len(new) > room:
            raise InvalidParameter(new[room], f"there are {PARAMETERS_MAX} already")

    async def name_cluster(self, key: bytes) -> None:
        """Give the cluster its id, unless it has one."""
        if CLUSTER_ID not in self._values:
            name = urlsafe_b64encode(key[:CLUSTER_ID_BYTES]).decode().rstrip("=")
            await self.put(CLUSTER_ID, f"rabbitmq-cluster-id-{name}")

    async def delete(self, name: str) -> None:
        """Delete a value.

        Raises:
            ParameterNotFound: there is none of this name.
        """
        self.get(name)
        await self.change(Change(_key(name), None))


def check_parameter(name: str, value: object) -> None:
    """Refuse what cannot be a parameter.

    Raises:
        InvalidParameter: the name or the value is too long, or a cluster cannot be called that.
    """
    if name == CLUSTER_NAME and not _is_cluster_name(value):
        what = f"a cluster's name is a string of 1 to {CLUSTER_NAME_BYTES_MAX} bytes"
        raise InvalidParameter(name, what)
    if not 1 <= len(name.encode(errors="replace")) <= NAME_BYTES_MAX:
        raise InvalidParameter(name[:NAME_BYTES_MAX], f"a name has 1 to {NAME_BYTES_MAX} bytes")
    if len(msgspec.json.encode(value)) > VALUE_BYTES_MAX:
        raise InvalidParameter(name, f"the value is larger than {VALUE_BYTES_MAX} bytes")


def _is_cluster_name(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value.encode()) <= CLUSTER_NAME_BYTES_MAX


def _key(name: str) -> bytes:
    return record_key("global-parameters", name)
