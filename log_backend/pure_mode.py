"""Runs the kernel uncompiled when ROUTELOG_PURE=1: the same files, slower, for debugging and comparison.

Compiled, a hot module lies as an extension beside its source, and Python prefers the extension; this
finder makes it take the source.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

HOT_MODULES = (
    "log_backend.checksum",
    "log_backend.record_batch",
    "log_backend.record_encoding",
    "log_backend.record_selection",
    "log_backend.gathering",
    "log_backend.journal_entry",
    "log_backend.journal_groups",
    "log_backend.placement",
    "log_backend.log_end",
    "log_backend.log_intake",
    "log_backend.tail",
    "log_backend.single_record",
    "amqp_front.property_walk",
    "amqp_front.frame_cutter",
    "amqp_front.body_inlet",
    "amqp_front.inlet",
    "amqp_front.deliver_frames",
    "amqp_front.confirms",
    "amqp_front.confirm_sender",
    "vhosts.appending",
    "vhosts.sharing_out",
    "amqp_front.record_attributes",
    "amqp_front.route_search",
    "amqp_front.publisher",
    "vhosts.queue",
    "exchanges.topic_lanes",
    "exchanges.topic_trie",
    "exchanges.equal_weights",
    "exchanges.route_walk",
)

_ROOT = Path(__file__).parent.parent


class SourceFinder(MetaPathFinder):
    """Finds the sources of the hot modules."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The source of a hot module; None for all others."""
        if fullname not in HOT_MODULES:
            return None
        return spec_from_file_location(fullname, _ROOT / f"{fullname.replace('.', '/')}.py")


def install() -> None:
    """Take the sources if the environment asks for it; before a hot module is imported."""
    if os.environ.get("ROUTELOG_PURE") == "1":
        sys.meta_path.insert(0, SourceFinder())
