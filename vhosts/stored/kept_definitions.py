"""Entries of definitions that mean nothing here, kept without effect: an export has them again.

They are of RabbitMQ's plugins: shovels, federation, exchanges of types that are not there. An operator asks for
it; else a document that has such an entry is refused. In the metadata store::

    key                                        value, JSON
    kept-definitions/<vhost>/<kind>/<name>…    {"version":1,"kind":…,"entry":{…}}

The names of a parameter are its component and its own; a binding has a digest of all that it says.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from routelog.exchanges import DEFAULT_EXCHANGE
from routelog.log_backend import Change, MetadataCorrupt, MetadataWriter
from routelog.vhosts.errors import InvalidDefinition, ParameterNotFound
from routelog.vhosts.stored.stored_definitions import StoredDefinitions, key_names
from routelog.vhosts.stored.topology_record import prefix, record_key

ENTRIES_MAX = 10_000  # of a vhost: they are all in memory
ENTRY_BYTES_MAX = 65_536  # as the value of a global parameter

Entry = Mapping[str, Any]
PARAMETERS, EXCHANGES, BINDINGS = "parameters", "exchanges", "bindings"


class _KeptRecord(msgspec.Struct, frozen=True):
    kind: str
    entry: dict[str, Any]
    version: Literal[1] = 1


class KeptDefinitions(StoredDefinitions):
    """The kept entries of one vhost."""

    def __init__(self, vhost: str, writer: MetadataWriter) -> None:
        super().__init__(writer, prefix("kept-definitions", vhost))
        self._vhost = vhost
        self._entries: dict[tuple[str, ...], Entry] = {}  # by kind and names

    def apply(self, change: Change) -> None:
        """See `StoredDefinitions`."""
        if change.value is None:
            _, *place = key_names(change.key)
            self._entries.pop(tuple(place), None)
            return
        try:
            record = msgspec.json.decode(change.value, type=_KeptRecord)
            self._entries[_place(record.kind, record.entry)] = record.entry
        except (msgspec.MsgspecError, KeyError) as error:
            raise MetadataCorrupt(f"{change.key!r}: {error}") from error

    def all(self, kind: str) -> list[Entry]:
        """The entries of a kind, as they were imported."""
        return [entry for place, entry in self._entries.items() if place[0] == kind]

    def parameter(self, component: str, name: str) -> Entry:
        """A parameter.

        Raises:
            ParameterNotFound: there is none of this name.
        """
        entry = self._entries.get((PARAMETERS, component, name))
        if entry is None:
            raise ParameterNotFound(name)
        return entry

    def find(self, kind: str, entry: Entry) -> Entry | None:
        """What is kept by the names that an entry has; None: nothing."""
        return self._entries.get(_place(kind, entry))

    def has_exchange(self, name: str) -> bool:
        """Whether there is an exchange of this name among them."""
        return (EXCHANGES, name) in self._entries

    def places(self) -> set[tuple[str, ...]]:
        """By what kinds and names they are kept."""
        return set(self._entries)

    async def put(self, kind: str, entry: Entry) -> None:
        """Keep an entry, in place of the one of its names; durable when this returns."""
        place = _place(kind, entry)
        record = msgspec.json.encode(_KeptRecord(kind, dict(entry)))
        await self.change(Change(self._key(place), record))

    async def delete_parameter(self, component: str, name: str) -> None:
        """Keep a parameter no longer.

        Raises:
            ParameterNotFound: there is none of this name.
        """
        self.parameter(component, name)
        await self._delete([(PARAMETERS, component, name)])

    async def delete_exchange(self, name: str) -> None:
        """Keep an exchange no longer, nor the bindings that lead from or to it."""
        gone: list[tuple[str, ...]] = [(EXCHANGES, name)] if self.has_exchange(name) else []
        for place, entry in self._entries.items():
            if place[0] == BINDINGS and name in exchanges_of(entry):
                gone.append(place)
        await self._delete(gone)

    async def _delete(self, places: list[tuple[str, ...]]) -> None:
        await self.change(*(Change(self._key(place), None) for place in places))

    def deletions(self) -> list[Change]:
        """What deletes the records of all entries."""
        return [Change(self._key(place), None) for place in self._entries]

    def _key(self, place: tuple[str, ...]) -> bytes:
        return record_key("kept-definitions", self._vhost, *place)


def check_kept(entry: Entry) -> None:
    """Refuse what is too large to be kept.

    Raises:
        InvalidDefinition: it is.
    """
    if len(msgspec.json.encode(entry)) > ENTRY_BYTES_MAX:
        raise InvalidDefinition(f"the entry: it is larger than {ENTRY_BYTES_MAX} bytes")


def check_room(
    vhost: str, known: KeptDefinitions | None, entries: Iterable[tuple[str, Entry]]
) -> None:
    """Refuse more than a vhost may have.

    Args:
        known: what it has; None: it is not there yet.
        entries: kinds, and what is to be kept.

    Raises:
        InvalidDefinition: with these it would have too many.
    """
    places = {_place(kind, entry) for kind, entry in entries}
    if len(places | (known.places() if known is not None else set())) > ENTRIES_MAX:
        reason = f"above {ENTRIES_MAX} entries without effect in vhost '{vhost}'"
        raise InvalidDefinition(f"the document: {reason}")


def exchanges_of(binding: Entry) -> set[str]:
    """The exchanges that the entry of a binding names."""
    named = {binding["source"]} - {DEFAULT_EXCHANGE}
    return named | (
        {binding["destination"]} if binding["destination_type"] == "exchange" else set()
    )


def _place(kind: str, entry: Entry) -> tuple[str, ...]:
    if kind == PARAMETERS:
        return kind, str(entry["component"]), str(entry["name"])
    if kind == EXCHANGES:
        return kind, str(entry["name"])
    digest = hashlib.sha256(msgspec.json.encode(entry, order="sorted")).hexdigest()
    return kind, digest[:32]
