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
    "routelog.log_backend.records.checksum",
    "routelog.log_backend.records.record_batch",
    "routelog.log_backend.records.record_encoding",
    "routelog.log_backend.records.record_selection",
    "routelog.log_backend.records.gathering",
    "routelog.log_backend.journal.journal_entry",
    "routelog.log_backend.journal.journal_groups",
    "routelog.log_backend.records.placement",
    "routelog.log_backend.partitions.log_end",
    "routelog.log_backend.partitions.log_intake",
    "routelog.log_backend.partitions.tail",
    "routelog.log_backend.records.single_record",
    "routelog.amqp_front.wire.property_walk",
    "routelog.amqp_front.wire.frame_cutter",
    "routelog.amqp_front.connections.body_receiver",
    "routelog.amqp_front.connections.receive_buffer",
    "routelog.amqp_front.wire.deliver_frames",
    "routelog.amqp_front.publishing.confirms",
    "routelog.amqp_front.publishing.confirm_sender",
    "routelog.vhosts.posting.appending",
    "routelog.vhosts.posting.fan_out",
    "routelog.amqp_front.wire.record_attributes",
    "routelog.vhosts.posting.decision",
    "routelog.amqp_front.publishing.publisher",
    "routelog.vhosts.queues.queue",
    "routelog.exchanges.indexes.topic_lanes",
    "routelog.exchanges.indexes.topic_trie",
    "routelog.exchanges.indexes.equal_weights",
    "routelog.exchanges.routes.route_walk",
)

_SOURCES = Path(__file__).parents[3]  # the folder that has the package routelog


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
        return spec_from_file_location(fullname, _SOURCES / f"{fullname.replace('.', '/')}.py")


def install() -> None:
    """Take the sources if the environment asks for it; before a hot module is imported."""
    if os.environ.get("ROUTELOG_PURE") == "1":
        sys.meta_path.insert(0, SourceFinder())
