"""The coordinator of a node on its own: it leads every partition, in a new epoch with each start.

The epoch stands in every batch, so that the logs of a node that is joined to others later can be
compared with theirs. The data directory's lock keeps a second process from leading.
"""

import logging

from routelog.log_backend import Change, MetadataStore

log = logging.getLogger(__name__)

EPOCH_KEY = b"epoch"


def epoch_alone(store: MetadataStore) -> int:
    """The newest epoch in which a node with these data ran on its own; 0: none did."""
    entry = store.get(EPOCH_KEY)
    return int(entry.value) if entry else 0


def claim_epoch(store: MetadataStore, journal_epoch: int) -> int:
    """Begin a new epoch, durable when this returns.

    Args:
        journal_epoch: of the journal's last block: other nodes have begun it, where this one followed in a
            cluster or as a standby. A block of a lower epoch would be no part of the journal.
    """
    own = epoch_alone(store)
    if journal_epoch > own:
        log.warning(
            "this was a node of a cluster, or a standby, and goes on alone, in epoch %d: no other node may "
            "take clients with the data that it has",
            journal_epoch + 1,
        )
    epoch = max(own, journal_epoch) + 1
    store.apply([Change(EPOCH_KEY, b"%d" % epoch)])
    return epoch
