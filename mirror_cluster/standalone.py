"""The coordinator of a node on its own: it leads every partition, in a new epoch with each start.

The epoch stands in every batch, so that the logs of a node that is joined to others later can be
compared with theirs. The data directory's lock keeps a second process from leading.
"""

from routelog.log_backend import Change, MetadataStore

EPOCH_KEY = b"epoch"


def claim_epoch(store: MetadataStore) -> int:
    """Begin a new epoch, durable when this returns.

    Raises:
        RevisionConflict: somebody else began one at the same time.
    """
    entry = store.get(EPOCH_KEY)
    epoch = int(entry.value) + 1 if entry else 1
    revision = entry.revision if entry else 0
    store.apply([Change(EPOCH_KEY, b"%d" % epoch, expected_revision=revision)])
    return epoch


def raise_epoch(store: MetadataStore, epoch: int) -> None:
    """The next epoch that begins is higher than this one, which another node began."""
    entry = store.get(EPOCH_KEY)
    if entry is None or int(entry.value) < epoch:
        store.apply([Change(EPOCH_KEY, b"%d" % epoch)])
