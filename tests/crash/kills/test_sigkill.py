"""SIGKILL of the real broker under confirmed load, again and again on one ageing data directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from crash.kills.loaded_history import (
    LIMITS,
    SEED,
    History,
    check_churned,
    check_counts,
    check_filters,
    declare_all,
    drain_all,
    load_until_killed,
    new_history,
    start_in_time,
)
from support.broker_process import BrokerProcess

pytestmark = pytest.mark.crash

KILLS = int(os.environ.get("ROUTELOG_TEST_KILLS", "12"))
DRAIN_EVERY = 20


def kills_of_rounds() -> list[int]:
    """How many kills each round has; it ends with a drain of everything."""
    full, rest = divmod(KILLS, DRAIN_EVERY)
    return [DRAIN_EVERY] * full + [rest] * bool(rest)


@pytest.fixture(scope="module")
def history() -> History:
    """Of all rounds: the data directory ages from one to the next."""
    return new_history(lost={"memory"})


@pytest.fixture(scope="module")
def ageing_broker(
    tmp_path_factory: pytest.TempPathFactory, history: History
) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("sigkill") / "data", LIMITS)
    broker.start()
    declare_all(broker.url, history)
    yield broker
    broker.stop()


@pytest.mark.parametrize("kills", kills_of_rounds())
def test_nothing_confirmed_is_lost_doubled_or_reordered_by_sigkill(
    ageing_broker: BrokerProcess, history: History, kills: int
) -> None:
    assert ageing_broker.alive, "an earlier round failed"
    try:
        for _ in range(kills):
            load_until_killed(ageing_broker, history)
            start_in_time(ageing_broker, history)
            check_counts(ageing_broker.url, history)
            check_filters(ageing_broker.url, history)
        drain_all(ageing_broker.url, history)
        check_churned(ageing_broker.url, history)
    except BaseException:
        print(ageing_broker.log_text()[-5000:])  # noqa: T201
        ageing_broker.stop()
        raise
    history.kills += kills


def test_the_broker_still_stops_in_order_after_all_kills(
    ageing_broker: BrokerProcess, history: History, figures: Callable[[str], None]
) -> None:
    figures(summary(history))  # of the rounds that held, when one has not
    assert ageing_broker.alive, "a round failed"
    assert ageing_broker.terminate() == 0


def summary(history: History) -> str:
    return (
        f"{history.kills} kills (seed {SEED}): {history.confirmed} messages confirmed, "
        f"{history.recovered} recovered and drained, "
        f"ready after at most {history.ready_seconds_max:.2f} s of processor time"
    )
