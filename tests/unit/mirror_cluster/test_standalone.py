"""Epochs of a node on its own."""

from pathlib import Path

import pytest

from routelog.log_backend import Change, MetadataStore, RevisionConflict
from routelog.mirror_cluster import claim_epoch
from routelog.mirror_cluster.standalone import EPOCH_KEY


def test_every_start_has_a_higher_epoch(tmp_path: Path) -> None:
    epochs = []
    for _ in range(3):
        store = MetadataStore.open(tmp_path / "metadata")
        epochs.append(claim_epoch(store, 0))
        store.close()
    assert epochs == [1, 2, 3]


def test_an_epoch_is_claimed_once(tmp_path: Path) -> None:
    store = MetadataStore.open(tmp_path / "metadata")
    assert [claim_epoch(store, 0), claim_epoch(store, 0)] == [1, 2]
    store.close()


def test_an_epoch_is_above_that_of_the_journal_which_another_node_began(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = MetadataStore.open(tmp_path / "metadata")
    assert [claim_epoch(store, newest) for newest in (0, 7, 8, 3)] == [1, 8, 9, 10]
    assert caplog.text.count("goes on alone") == 1
    store.close()


@pytest.mark.parametrize("earlier", [0, 1])
def test_of_two_at_the_same_time_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: int
) -> None:
    store = MetadataStore.open(tmp_path / "metadata")
    for _ in range(earlier):
        claim_epoch(store, 0)
    stale = store.get(EPOCH_KEY)
    store.apply([Change(EPOCH_KEY, b"9")])
    with monkeypatch.context() as patched:
        patched.setattr(store, "get", lambda key: stale)
        with pytest.raises(RevisionConflict):
            claim_epoch(store, 0)
    assert claim_epoch(store, 0) == 10
    store.close()
