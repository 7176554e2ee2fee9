"""Routes that nobody asks for any more."""

from routelog.exchanges.routes.stale_routes import LET_GO_FROM, StaleRoutes


def test_as_much_goes_as_comes_and_very_long_ones_one_by_one() -> None:
    stale, long = StaleRoutes(), ("q",) * 20_000
    table = dict.fromkeys(range(5), long)
    stale.add(table)
    left = []
    for _ in range(6):
        stale.free(1 + len(long))
        left.append(len(table))
    assert left == [4, 3, 2, 1, 0, 0]


def test_short_ones_go_many_at_a_time() -> None:
    stale = StaleRoutes()
    tables = [dict.fromkeys(range(100), ("q",)) for _ in range(5)]
    for table in tables:
        stale.add(table)
    stale.add({})
    for _ in range(LET_GO_FROM // 2 - 1):
        stale.free(2)
    assert sum(map(len, tables)) == 500
    stale.free(2)
    assert sum(map(len, tables)) == 500 - LET_GO_FROM // 2
    stale.free(LET_GO_FROM)
    assert not any(tables)


def test_what_came_before_there_was_anything_stale_does_not_count() -> None:
    stale = StaleRoutes()
    stale.free(1_000_000)
    table = dict.fromkeys(range(1000), ())
    stale.add(table)
    stale.free(LET_GO_FROM)
    assert len(table) == 1_000 - LET_GO_FROM
