"""What one call changed in a topology."""

import msgspec

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.exchange import Exchange


class TopologyChange(msgspec.Struct, frozen=True):
    """Exchanges and bindings that one call added and removed, cascades included.

    True when there are any. The caller that persists the topology writes those with `durable` set.

    Attributes:
        unfinished: more bindings of deleted nodes than one call removes: see `Topology.remove_departed`.
    """

    exchanges_declared: tuple[Exchange, ...] = ()
    exchanges_deleted: tuple[Exchange, ...] = ()
    bindings_added: tuple[Binding, ...] = ()
    bindings_removed: tuple[Binding, ...] = ()
    unfinished: bool = False

    def __bool__(self) -> bool:
        return bool(
            self.exchanges_declared
            or self.exchanges_deleted
            or self.bindings_added
            or self.bindings_removed
        )


NO_CHANGE = TopologyChange()
