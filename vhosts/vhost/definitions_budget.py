"""How much memory the exchanges, queues and bindings of a node take, and how much they may take.

Nobody needs a tag to declare, and what is stored comes back with each start: without a limit, one user could
make definitions that no start has memory for.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from routelog.exchanges import Binding, Exchange
from routelog.vhosts.arguments.argument_table import encode_arguments
from routelog.vhosts.arguments.limits import MAX_BINDINGS, Limits, reached
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.errors import (
    DefinitionsLimitReached,
    UserBindingLimitReached,
)

Definition = Exchange | QueueProperties | Binding

# Measured, rounded up: with names of 10 characters and without arguments.
_OWN_BYTES: dict[type, int] = {Exchange: 2_048, QueueProperties: 4_096, Binding: 1_024}
VALUE_BYTES = (
    224  # of an argument: its name, its value, its place in tables and in the exchange's index
)
USER_SHARE = 4  # a quarter of the limit is left when one user has all of his

BYTES_MAX = 1 << 30  # where no limit is set


class DefinitionsBudget:
    """One of a node: it counts what is there, by who has declared it.

    Attributes:
        bytes: of all definitions.
        limits_of: the limits of a user, by name; set by the owner of users.

    Args:
        bytes_max: of all definitions.
        hold: called with the change of what arguments take of memory: the alarm counts them, while names and
            keys cost what any broker has for them.
    """

    def __init__(self, bytes_max: int, hold: Callable[[int], None]) -> None:
        self.bytes_max = bytes_max
        self._hold = hold
        self.bytes = 0
        self.limits_of: Callable[[str], Limits] = lambda user: {}
        self._of_user: Counter[str] = Counter()
        self._bindings_of_user: Counter[str] = Counter()

    @property
    def user_bytes_max(self) -> int:
        """How much of it one user may have."""
        return self.bytes_max - self.bytes_max // USER_SHARE

    def check(self, user: str, size: int, bindings: int = 0) -> None:
        """Refuse what is too much.

        Args:
            user: who adds it; empty: the broker itself, which only the node's limit holds for.
            size: of what comes; see `definition_bytes`.
            bindings: how many of it are some.

        Raises:
            DefinitionsLimitReached, UserBindingLimitReached: which limit it is.
        """
        if self.bytes + size > self.bytes_max:
            raise DefinitionsLimitReached("the node has", self.bytes, size, self.bytes_max)
        if not user:
            return
        if self._of_user[user] + size > self.user_bytes_max:
            of_user = self._of_user[user]
            raise DefinitionsLimitReached(f"user '{user}' has", of_user, size, self.user_bytes_max)
        if bindings:
            count = self._bindings_of_user[user] + bindings - 1
            if (limit := reached(self.limits_of(user), MAX_BINDINGS, count)) is not None:
                raise UserBindingLimitReached(user, limit)

    def changed(self, added: Sequence[Definition], removed: Sequence[Definition] = ()) -> None:
        """Count what is there now, and what is not there any more."""
        held = 0
        for sign, definitions in ((1, added), (-1, removed)):
            for each in definitions:
                arguments = sign * arguments_bytes(each.arguments)
                size = sign * _OWN_BYTES[type(each)] + arguments
                held += arguments
                self.bytes += size
                _count(self._of_user, each.user, size)
                if isinstance(each, Binding):
                    _count(self._bindings_of_user, each.user, sign)
        if held:
            self._hold(held)


def definition_bytes(definition: Definition) -> int:
    """What a definition takes of memory, about."""
    return _OWN_BYTES[type(definition)] + arguments_bytes(definition.arguments)


def arguments_bytes(arguments: Mapping[str, object]) -> int:
    """What arguments take of memory, about: their content twice, as indexes have it too, and each value."""
    if not arguments:
        return 0
    return 2 * len(encode_arguments(arguments)) + VALUE_BYTES * _values(arguments)


def _values(value: object) -> int:
    # In a table, in tables and arrays of it, too: arguments are 32 deep at most.
    if isinstance(value, Mapping):
        return len(value) + sum(map(_values, value.values()))
    return len(value) + sum(map(_values, value)) if isinstance(value, list) else 0


def _count(counts: Counter[str], user: str, change: int) -> None:
    counts[user] += change
    if not counts[user]:
        del counts[user]  # no entries for users who have nothing
