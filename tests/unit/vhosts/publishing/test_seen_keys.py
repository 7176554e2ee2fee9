"""The keys that a deduplication exchange has seen."""

import pytest

from routelog.exchanges import DeduplicationOptions, Message
from routelog.log_backend import Records
from routelog.vhosts.publishing import exchange_memory_limit
from routelog.vhosts.publishing.exchange_memory import Note
from routelog.vhosts.publishing.exchange_memory_limit import KEY_BYTES, ExchangeMemoryLimit
from routelog.vhosts.publishing.seen_keys import KEY_BYTES_MAX, SeenKeys


class Seen:
    """Keys that are not kept on a disk, and a clock."""

    def __init__(
        self, size: int = 100, ttl: int | None = None, limit: ExchangeMemoryLimit | None = None
    ) -> None:
        self.now = 1_000_000
        options = DeduplicationOptions(size, ttl, False)
        limit = limit or ExchangeMemoryLimit(0, lambda size: None)
        self.keys = SeenKeys(options, None, lambda: self.now, limit)

    def note(self, key: object, **headers: object) -> Note:
        note = self.keys.note(Message({"x-deduplication-header": key, **headers}))
        assert note is not None
        return note

    def knows(self, key: object) -> bool:
        return self.keys.knows(self.note(key))

    def see(self, *keys: object, **headers: object) -> None:
        notes = [(place, self.note(key, **headers)) for place, key in enumerate(keys)]
        self.keys.remember(notes, no_records, persistent=True)()


def no_records(places: list[int]) -> Records:
    raise AssertionError("keys need no messages")


def test_a_message_without_a_key_is_not_noted() -> None:
    assert Seen().keys.note(Message({})) is None
    assert Seen().keys.note(Message({"x-deduplication-header": None})) is None


def test_values_of_another_type_are_other_keys() -> None:
    values = ["1", 1, 1.0, True, [1], {"1": 1}, "", b"\xff", "x" * 99, "x" * 98 + "y"]
    for value in values:
        seen = Seen()
        seen.see(value)
        assert [other for other in values if seen.knows(other)] == [value]


def test_a_string_is_one_key_whether_it_came_as_text_or_as_octets() -> None:
    seen = Seen()
    seen.see("käse")
    assert seen.knows("käse".encode())


def test_a_long_key_costs_no_more_than_its_hash() -> None:
    seen = Seen()
    seen.see("k" * 10_000)
    assert len(seen.note("k" * 10_000).key) <= KEY_BYTES_MAX


def test_the_number_of_keys_is_bounded_and_the_oldest_goes() -> None:
    seen = Seen(size=10)
    for number in range(1_000):
        seen.see(number)
        assert len(seen.keys) <= 10
    assert [number for number in range(1_000) if seen.knows(number)] == list(range(990, 1_000))


def test_a_key_is_known_until_its_time_is_over() -> None:
    seen = Seen(ttl=5)
    seen.see("a")
    seen.now += 4_999
    assert seen.knows("a")
    seen.now += 1
    assert not seen.knows("a")
    seen.see("b")
    assert len(seen.keys) == 1, "what is over takes no room"


def test_the_time_of_a_message_comes_before_that_of_the_exchange() -> None:
    seen = Seen(ttl=5)
    seen.see("a", **{"x-cache-ttl": 50})
    seen.see("b", **{"x-cache-ttl": "1"})
    seen.see("c", **{"x-cache-ttl": -1})
    seen.now += 4_000
    assert [key for key in "abc" if seen.knows(key)] == ["a", "c"]
    seen.now += 45_999
    assert [key for key in "abc" if seen.knows(key)] == ["a"]


def test_a_key_that_comes_again_after_its_time_counts_from_then() -> None:
    seen = Seen(size=2, ttl=5)
    seen.see("a")
    seen.see("b")
    seen.now += 6_000
    seen.see("a")
    seen.see("c")
    assert [key for key in "abc" if seen.knows(key)] == ["a", "c"]


def test_keys_of_all_exchanges_are_bounded_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_memory_limit, "KEYS_MAX", 5)
    held: list[int] = []
    together = ExchangeMemoryLimit(0, held.append)
    one, other = Seen(limit=together), Seen(limit=together)
    one.see("a", "b", "c")
    other.see("d", "e", "f", "g")
    assert together.keys == 5
    assert sum(held) == 5 * KEY_BYTES
    assert [other.knows(key) for key in "defg"] == [False, False, True, True]
    assert all(one.knows(key) for key in "abc")
    one.keys.close()
    other.keys.close()
    assert together.keys == sum(held) == 0
