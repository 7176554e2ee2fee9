"""Charts and sparklines: from the API's samples to lines."""

import json

from routelog.management.figures.charts import (
    RANGES,
    SPARKLINE_HEIGHT,
    SPARKLINE_WIDTH,
    at_age,
    length_chart,
    message_chart,
    octet_chart,
    range_of,
    sparkline,
)


def details(*values: int, rate: float = 0.0) -> dict[str, object]:
    """As the API has them: the newest first, in milliseconds."""
    samples = [
        {"sample": value, "timestamp": (100 + 10 * at) * 1_000} for at, value in enumerate(values)
    ]
    return {"rate": rate, "samples": samples[::-1]}


def test_lengths_are_drawn_as_they_were() -> None:
    row = {
        "messages_ready": 7,
        "messages_ready_details": details(1, 2, 5),
        "messages_unacknowledged": 0,
        "messages_unacknowledged_details": details(0, 1, 0),
    }
    chart = length_chart(row)
    assert [(each.label, each.latest) for each in chart.series] == [
        ("Ready", 7),
        ("Unacknowledged", 0),
    ]
    assert json.loads(chart.data) == {
        "unit": "count",
        "times": [100, 110, 120],
        "series": [
            {"colour": "ready", "values": [1, 2, 5]},
            {"colour": "unacked", "values": [0, 1, 0]},
        ],
    }


def test_counts_are_drawn_by_how_fast_they_grow() -> None:
    stats = {"publish": 60, "publish_details": details(0, 10, 60, rate=4.5)}
    chart = message_chart({"message_stats": stats})
    assert chart is not None
    assert list(chart.times) == [110, 120]
    (line,) = chart.series
    assert (line.label, line.latest, list(line.values)) == ("Published", 4.5, [1.0, 5.0])
    octets = {"recv_oct_details": details(0, 100), "send_oct_details": details(0, 0)}
    chart = octet_chart(octets)
    assert chart is not None
    assert [list(each.values) for each in chart.series] == [[10.0], [0.0]]


def test_a_counter_that_began_anew_has_no_negative_rate() -> None:
    stats = {"publish": 3, "publish_details": details(60, 3, 13)}
    chart = message_chart({"message_stats": stats})
    assert chart is not None
    assert list(chart.series[0].values) == [0, 1.0]


def test_samples_are_found_by_their_age() -> None:
    value = at_age(details(1, 2, 5))
    assert [value(age) for age in (0, 9, 10, 20, 99)] == [5, 2, 2, 1, 1]


def test_a_range_asks_for_some_sixty_points() -> None:
    for each in RANGES:
        assert (each.age / each.step, each.query["msg_rates_age"]) == (60, str(each.age))
    assert [range_of(each.key) for each in RANGES] == list(RANGES)
    assert range_of("2y") == RANGES[0]


def test_without_any_message_there_is_no_chart_of_rates() -> None:
    assert message_chart({}) is None


def test_a_sparkline_fills_its_box_from_nothing_to_the_most() -> None:
    line = sparkline(details(0, 5, 10))
    assert (
        line.points
        == f"0.0,{SPARKLINE_HEIGHT - 1}.0 {SPARKLINE_WIDTH / 2},{SPARKLINE_HEIGHT / 2} {SPARKLINE_WIDTH}.0,1.0"
    )
    assert (line.least, line.most, line.latest) == (0, 10, 10)
    assert (
        sparkline(details(0, 0)).points
        == f"0.0,{SPARKLINE_HEIGHT - 1}.0 {SPARKLINE_WIDTH}.0,{SPARKLINE_HEIGHT - 1}.0"
    )
    assert sparkline(details(3)).points == f"0.0,1.0 {SPARKLINE_WIDTH}.0,1.0"
    assert sparkline(details(3, 3, 3)).points == f"0.0,1.0 {SPARKLINE_WIDTH}.0,1.0", (
        "a flat line is its ends"
    )
