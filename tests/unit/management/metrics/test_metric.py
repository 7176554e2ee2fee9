"""Prometheus' text format, byte by byte."""

from routelog.log_backend import Histogram
from routelog.management.metrics.metric import head, histogram_text, labelled


def test_a_metric_begins_with_what_it_means_and_its_type() -> None:
    expected = "# HELP routelog_x What it is\n# TYPE routelog_x gauge\n"
    assert head("routelog_x", "gauge", "What it is") == expected


def test_labels_are_in_braces_and_none_are_nothing() -> None:
    assert labelled({"vhost": "/", "queue": "orders"}) == '{vhost="/",queue="orders"}'
    assert labelled({}) == ""


def test_what_would_end_a_label_or_a_line_is_escaped() -> None:
    assert labelled({"queue": 'a"b\\c\nd'}) == '{queue="a\\"b\\\\c\\nd"}'


def test_a_name_that_cannot_be_encoded_does_not_spoil_the_scrape() -> None:
    assert labelled({"queue": "ü\udcff"}) == '{queue="ü?"}'


def test_buckets_of_a_histogram_count_all_values_up_to_their_bound() -> None:
    histogram = Histogram((0.5, 10))
    for value in (0.1, 0.5, 3, 20):
        histogram.observe(value)
    assert histogram_text("x", "Waits", histogram).splitlines() == [
        "# HELP x Waits",
        "# TYPE x histogram",
        'x_bucket{le="0.5"} 2',
        'x_bucket{le="10"} 3',
        'x_bucket{le="+Inf"} 4',
        "x_sum 23.6",
        "x_count 4",
    ]
