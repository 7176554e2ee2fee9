"""How numbers are written for people."""

from __future__ import annotations

import pytest

from routelog.management.figures.numbers import (
    as_ago,
    as_count,
    as_moment,
    as_number,
    as_octet_rate,
    as_octets,
    as_rate,
    as_span,
)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "–"),
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1 kB"),
        (15_213_000, "15.2 MB"),
        (111_400_000, "111 MB"),
        (999_600, "1 MB"),
        (24e9, "24 GB"),
        (2**60, "1,153 PB"),
    ],
)
def test_a_size_has_three_digits_and_its_unit(size: float | None, text: str) -> None:
    assert as_octets(size) == text


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.04, "< 0.1/s"),
        (0.44, "0.4/s"),
        (3.0, "3/s"),
        (44.791, "44.8/s"),
        (105, "105/s"),
        (999.6, "1 k/s"),
        (41_812, "41.8 k/s"),
        (1_240_000, "1.24 M/s"),
    ],
)
def test_a_rate_has_its_unit_and_no_thousandths(per_second: float | None, text: str) -> None:
    assert as_rate(per_second) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.44, "0.4 s"),
        (48.2, "48 s"),
        (59.9, "59 s"),
        (1_130, "18 min"),
        (7_200, "2 h"),
        (8_040, "2 h 14 min"),
        (8 * 86_400 + 4 * 3_600, "8 d 4 h"),
        (400 * 86_400, "400 d"),
    ],
)
def test_a_span_has_its_two_largest_units(seconds: float | None, text: str) -> None:
    assert as_span(seconds) == text


def test_counts_are_whole_up_to_a_million() -> None:
    assert (as_count(None), as_count(55_191), as_count(1_240_400)) == ("–", "55,191", "1.24 M")
    assert (as_number(None), as_number(1_234_567)) == ("–", "1,234,567")
    assert (as_octet_rate(None), as_octet_rate(0), as_octet_rate(1.2e6)) == ("–", "0", "1.2 MB/s")


def test_times_are_said_from_now_and_exactly() -> None:
    assert (as_ago(0.4), as_ago(8_040), as_ago(-90)) == ("just now", "2 h 14 min ago", "in 1 min")
    assert as_moment(0) == "1970-01-01 00:00:00 UTC"
    assert as_moment(1e30) == "1e+30 s after 1970"
