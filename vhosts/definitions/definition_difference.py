"""States of a node's definitions, as records of the metadata, and the difference between two of them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from routelog.log_backend import Change, MetadataCorrupt
from routelog.vhosts.stored.user_record import decode_user

USERS = b"users"
PERMISSIONS = b"permissions", b"topic-permissions"
EXCHANGES = b"exchanges", b"transient-exchanges"
QUEUES = b"queues", b"transient-queues"
BINDINGS = b"bindings", b"transient-bindings"

_End = tuple[bytes, bytes, bytes]  # vhost, kind and name, as they stand in keys


class DefinitionState:
    """The records of all definitions, kind by kind: those of one depend on kinds before it alone.

    Args:
        prefixes: of the keys, in the order in which they are loaded.
    """

    def __init__(self, prefixes: Iterable[bytes]) -> None:
        self._by_kind: dict[bytes, dict[bytes, bytes]] = {_kind(each): {} for each in prefixes}

    def keep(self, changes: Iterable[Change]) -> None:
        """Carry out changes."""
        for key, value in ((each.key, each.value) for each in changes):
            records = self._by_kind[_kind(key)]
            if value is None:
                records.pop(key, None)
            else:
                records[key] = value

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None: there is no such record."""
        return self._by_kind[_kind(key)].get(key)

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, in an order in which they can be carried out; nothing changes meanwhile."""
        for records in self._by_kind.values():
            yield from records.items()

    def keys_backwards(self) -> Iterator[bytes]:
        """Keys, in an order in which they can be deleted; those that have come may be."""
        for records in reversed(self._by_kind.values()):
            yield from [*records]


def definition_difference(
    known: DefinitionState, wanted: DefinitionState
) -> Iterator[Sequence[Change]]:
    """What leads from one state to another one, in steps that may have no changes.

    A user with another password hash is deleted, and another one made: so he may be, and his connections close.

    Args:
        known: its owner keeps it up with what was yielded.
    """
    bound: dict[_End, list[bytes]] = {}  # bindings that stay, by what they bind
    permitted: dict[bytes, list[bytes]] = {}  # permissions that stay, by user
    for key in known.keys_backwards():
        if wanted.get(key) is None:
            yield (Change(key, None),)
            continue
        yield ()
        if _kind(key) in BINDINGS:
            for end in _ends(key):
                bound.setdefault(end, []).append(key)
        elif _kind(key) in PERMISSIONS:
            permitted.setdefault(key.split(b"/")[2], []).append(key)
    for key, value in wanted.records():
        before, kind = known.get(key), _kind(key)
        if before == value:
            yield ()
            continue
        # What is new, and another exchange of the name, must have no bindings: they come behind it.
        if kind in EXCHANGES or (kind in QUEUES and before is None):
            for binding in bound.pop(_end(key), ()):
                if known.get(binding) is not None:
                    yield (Change(binding, None),)
        if kind == USERS and before is not None and _is_another(key, before, value):
            # In one step: who logs in meanwhile, or publishes, has all that he may.
            stay = [
                Change(each, wanted.get(each)) for each in permitted.get(key.split(b"/")[1], ())
            ]
            yield (Change(key, None), Change(key, value), *stay)
            continue
        if before is not None and kind in EXCHANGES + BINDINGS:
            yield (Change(key, None),)
        yield (Change(key, value),)


def _kind(key: bytes) -> bytes:
    return key.partition(b"/")[0]


def _is_another(key: bytes, before: bytes, value: bytes) -> bool:
    # Two states do not tell whether a user of the name was deleted between them. A hash is salted: another one
    # is another user's, or of another password. That closes no connections otherwise, but may behind a session
    # that was lost.
    with suppress(MetadataCorrupt):  # it is met when it is carried out
        was, user = decode_user(key, before), decode_user(key, value)
        return was.password_hash != user.password_hash
    return False


def _end(key: bytes) -> _End:
    # Of the key of a queue, or of an exchange
    kind, vhost, name = key.split(b"/")
    return vhost, b"queue" if kind in QUEUES else b"exchange", name


def _ends(key: bytes) -> tuple[_End, _End]:
    # bindings/<vhost>/<source>/<kind>/<destination>/<key>/<arguments>
    _, vhost, source, kind, destination, *_ = key.split(b"/")
    return (vhost, b"exchange", source), (vhost, kind, destination)
