"""Epochs of a node on its own."""

from pathlib import Path

import pytest

from routelog.log_backend import MetadataStore
from routelog.mirror_cluster import claim_epoch


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
