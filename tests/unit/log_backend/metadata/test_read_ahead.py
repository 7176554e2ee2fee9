from pathlib import Path

from routelog.log_backend.metadata.metadata import Change, MetadataStore
from routelog.log_backend.metadata.read_ahead import ReadAhead

KEYS = [b"a/1", b"b/", b"b/1", b"b/1\x00", b"b/10", b"b/\xff", b"b/\xff\xff", b"b0", b"c/1"]


def test_it_has_what_the_store_had_below_its_prefixes(tmp_path: Path) -> None:
    store = MetadataStore.open(tmp_path / "metadata")
    store.apply([Change(key, b"value of " + key) for key in KEYS])
    ahead = ReadAhead(store, b"b/", b"c/")
    below = [key for key in KEYS if key.startswith((b"b/", b"c/"))]
    assert len(below) == 7
    for key in (*KEYS, b"b/2", b""):
        assert ahead.get(key) == (store.get(key) if key in below else None)
    for prefix in (b"b/", b"b/1", b"b/\xff", b"b/2", b"c/", b"c/2"):
        assert list(ahead.scan(prefix)) == list(store.scan(prefix))
    store.apply([Change(b"b/1", None), Change(b"b/2", b"new")])
    assert ahead.get(b"b/1") is not None
    assert ahead.get(b"b/2") is None
    store.close()


def test_an_empty_store_has_nothing_to_read_ahead(tmp_path: Path) -> None:
    store = MetadataStore.open(tmp_path / "metadata")
    ahead = ReadAhead(store, b"b/")
    assert ahead.get(b"b/1") is None
    assert list(ahead.scan(b"b/")) == []
    store.close()
