"""The winner among destinations of one weight, against the stupid way."""

from routelog.exchanges.indexes.consistent_hash_index import hash64
from routelog.exchanges.indexes.equal_weights import EqualWeights

MASK = (1 << 64) - 1


class Place:
    def __init__(self, name: bytes) -> None:
        self.seed = hash64(name)
        self.place = -1


def mixed(hashed: int, seed: int) -> int:
    value = hashed ^ seed
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def assert_best(equals: EqualWeights[Place], places: list[Place]) -> None:
    for number in range(500):
        hashed = hash64(b"key %d" % number)
        at, highest = equals.best(hashed)
        expected = max(places, key=lambda each: mixed(hashed, each.seed))
        assert equals.destinations[at] is expected
        assert highest == mixed(hashed, expected.seed)


def test_the_highest_mixed_hash_wins() -> None:
    equals: EqualWeights[Place] = EqualWeights()
    places = [Place(b"%d" % number) for number in range(20)]
    for place in places:
        equals.add(place)
    assert_best(equals, places)


def test_who_has_left_wins_no_more() -> None:
    equals: EqualWeights[Place] = EqualWeights()
    places = [Place(b"%d" % number) for number in range(10)]
    for place in places:
        equals.add(place)
    for gone in (places[0], places[9], places[4]):
        equals.remove(gone)
        places.remove(gone)
        assert_best(equals, places)
    assert [each.place for each in equals.destinations] == list(range(7))


def test_one_alone_wins_with_any_hash() -> None:
    equals: EqualWeights[Place] = EqualWeights()
    equals.add(Place(b"only"))
    for hashed in (0, 1, MASK, equals.destinations[0].seed):
        assert equals.best(hashed)[0] == 0
