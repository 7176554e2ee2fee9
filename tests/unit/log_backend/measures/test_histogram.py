"""Which bucket a value is counted in."""

from routelog.log_backend.measures.histogram import Histogram


def test_a_value_is_counted_in_the_first_bucket_that_reaches_it() -> None:
    histogram = Histogram((1, 2.5))
    for value in (0, 1, 1.5, 2.5, 2.6, 100):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 2]
    assert histogram.sum == 107.6


def test_a_new_histogram_is_empty() -> None:
    histogram = Histogram()
    assert sum(histogram.counts) == histogram.sum == 0
    assert list(histogram.bounds) == sorted(set(histogram.bounds))
