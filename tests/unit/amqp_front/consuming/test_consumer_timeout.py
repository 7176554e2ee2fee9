"""Who says how long a consumer may hold a delivery."""

import pytest

from routelog.amqp_front.consuming.consumer_timeout import (
    CONSUMER_TIMEOUT,
    lease_seconds,
    wanted_timeout,
)
from routelog.amqp_front.wire.errors import PRECONDITION_FAILED, SoftError


def test_a_consumer_may_say_how_long_it_takes() -> None:
    assert wanted_timeout({}) is None
    assert wanted_timeout({CONSUMER_TIMEOUT: 0}) == 0
    assert wanted_timeout({CONSUMER_TIMEOUT: 1_500, "x-priority": 3}) == 1_500


@pytest.mark.parametrize("value", [-1, True, 1.5, "1500", {}])
def test_what_is_no_number_of_milliseconds_is_refused(value: object) -> None:
    with pytest.raises(SoftError, match="no number of milliseconds") as caught:
        wanted_timeout({CONSUMER_TIMEOUT: value})
    assert caught.value.code == PRECONDITION_FAILED


@pytest.mark.parametrize(
    ("own", "of_queue", "default", "seconds"),
    [
        (1_500, {CONSUMER_TIMEOUT: 7_000}, 1_800.0, 1.5),
        (None, {CONSUMER_TIMEOUT: 7_000}, 1_800.0, 7.0),
        (None, {}, 1_800.0, 1_800.0),
        (0, {CONSUMER_TIMEOUT: 7_000}, 1_800.0, None),
        (None, {CONSUMER_TIMEOUT: 0}, 1_800.0, None),
        (None, {}, 0.0, None),
    ],
)
def test_the_nearest_word_counts_and_none_is_for_ever(
    own: int | None, of_queue: dict[str, object], default: float, seconds: float | None
) -> None:
    assert lease_seconds(own, of_queue, default) == seconds
