"""A run whose messages go several ways to the same queues, shared out."""

from random import Random

from routelog.exchanges import Route
from routelog.vhosts.publishing.fan_out import NAMES_AT_ONCE, disjoint, shared_out


def by_queue(chosen: dict[Route, list[int]]) -> dict[str, list[int]]:
    """What each queue gets, in the order of the messages."""
    found: dict[str, list[int]] = {}
    for route, messages in chosen.items():
        for name in route:
            found.setdefault(name, []).extend(messages)
    return {name: sorted(messages) for name, messages in found.items()}


def assert_shared_out(chosen: dict[Route, list[int]], shared: dict[Route, list[int]]) -> None:
    assert sum(map(len, shared)) == len({name for route in shared for name in route})
    assert by_queue(shared) == by_queue(chosen)
    assert all(messages == sorted(messages) for messages in shared.values())
    assert len({tuple(messages) for messages in shared.values()}) == len(shared)


def test_routes_without_a_queue_in_common_stay_as_they_are() -> None:
    for chosen in (
        {("a", "b"): [0, 2], ("c",): [1]},
        {("a", "b"): [0]},
        {("a",): [0], ("b",): [1]},
    ):
        assert disjoint(chosen) == chosen
        assert dict(filter(None, shared_out(chosen))) == chosen


def test_each_queue_gets_all_of_its_messages_in_one_route() -> None:
    random = Random(1)
    for _ in range(200):
        names = [f"q{number}" for number in range(random.randint(1, 12))]
        chosen: dict[Route, list[int]] = {}
        for message in range(random.randint(1, 30)):
            route = tuple(sorted(random.sample(names, random.randint(1, len(names)))))
            chosen.setdefault(route, []).append(message)
        assert_shared_out(chosen, disjoint(chosen))


def test_very_many_queues_are_shared_out_in_pieces() -> None:
    names = [f"q{number}" for number in range(5 * NAMES_AT_ONCE)]
    chosen = {tuple(names[: 3 * NAMES_AT_ONCE]): [0, 2], tuple(names[NAMES_AT_ONCE:]): [1, 3]}
    pieces = list(shared_out(chosen))
    assert pieces.count(None) == 3 + 4 + 5
    shared = dict(each for each in pieces if each is not None)
    assert_shared_out(chosen, shared)
    assert sorted(shared.values()) == [[0, 1, 2, 3], [0, 2], [1, 3]]
