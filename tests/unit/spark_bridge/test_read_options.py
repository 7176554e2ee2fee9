"""The options of a read: what they mean, and how a mistake is answered."""

import pickle
from pathlib import Path

import pytest

from spark_bridge.errors import BadOption
from spark_bridge.log_store import LogPartition
from spark_bridge.read_options import OPTIONS, ReadOptions, parse_read_options

GIVEN = {"path": "/data", "subscribe": "audit"}
PARTITIONS = [LogPartition("/", queue, n) for queue in ("audit", "orders") for n in (0, 1)]


def parse(**options: str) -> ReadOptions:
    return parse_read_options(GIVEN | options)


def selected(**options: str) -> list[tuple[str, int]]:
    choice = parse_read_options({"path": "/data"} | options).selection.select(PARTITIONS)
    return [(each.queue, each.partition) for each in choice]


def test_the_defaults_read_everything_in_the_default_vhost() -> None:
    options = parse()
    assert (options.path, options.vhost) == (Path("/data"), "/")
    assert options.starting.offset(PARTITIONS[0], 5, 9) == 5
    assert options.ending.offset(PARTITIONS[0], 5, 9) == 9
    assert (options.partitions_min, options.records_max) == (None, None)
    assert options.fail_on_data_loss


def test_names_of_options_are_taken_in_any_case() -> None:
    options = parse(MINPARTITIONS="3", maxrecordsperpartition="7", FailOnDataLoss="FALSE")
    assert (options.partitions_min, options.records_max, options.fail_on_data_loss) == (3, 7, False)


def test_options_travel_to_executors() -> None:
    options = parse_read_options({"path": "/data", "subscribePattern": "a.*"})
    assert pickle.loads(pickle.dumps(options)) == options


def test_queues_are_chosen_by_name_pattern_or_partition() -> None:
    assert selected(subscribe=" orders , ") == [("orders", 0), ("orders", 1)]
    assert selected(subscribe="audit,orders") == [(p.queue, p.partition) for p in PARTITIONS]
    assert selected(subscribePattern="a.*t") == [("audit", 0), ("audit", 1)]
    assert selected(subscribePattern="aud") == []
    assert selected(assign='{"orders": [1], "audit": [0]}') == [("audit", 0), ("orders", 1)]


def test_a_queue_asked_for_by_name_must_be_there() -> None:
    with pytest.raises(BadOption, match="option subscribe: no log of 'gone', 'lost'"):
        selected(subscribe="lost,audit,gone")
    with pytest.raises(BadOption, match="option assign: no log of 'audit:2'"):
        selected(assign='{"audit": [0, 2]}')


def test_offsets_are_taken_partition_by_partition() -> None:
    options = parse(
        startingOffsets='{"audit": {"0": 17, "1": -2}}', endingOffsets='{"audit":{"0":-1,"1":20}}'
    )
    first, second = PARTITIONS[:2]
    assert [options.starting.offset(each, 5, 30) for each in (first, second)] == [17, 5]
    assert [options.ending.offset(each, 5, 30) for each in (first, second)] == [30, 20]


def test_offsets_must_cover_exactly_the_partitions_read() -> None:
    limit = parse(startingOffsets='{"audit": {"0": 17, "7": 1}}').starting
    with pytest.raises(BadOption, match="startingOffsets: has no offset for 'audit:1'"):
        limit.check_covers(PARTITIONS[:2])
    with pytest.raises(BadOption, match="startingOffsets: has offsets for 'audit:7'"):
        limit.check_covers(PARTITIONS[:1])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("path", ""),
        ("subscribe", " , "),
        ("startingOffsets", "latest"),
        ("startingOffsets", "newest"),
        ("startingOffsets", "17"),
        ("startingOffsets", "[]"),
        ("startingOffsets", '{"audit": 17}'),
        ("startingOffsets", '{"audit": {"0": "17"}}'),
        ("startingOffsets", '{"audit": {"0": true}}'),
        ("startingOffsets", '{"audit": {"0": -3}}'),
        ("startingOffsets", '{"audit": {"0": -1}}'),
        ("startingOffsets", '{"audit": {"x": 1}}'),
        ("startingOffsets", '{"audit": {"0": 1}'),
        ("endingOffsets", "Earliest"),
        ("endingOffsets", '{"audit": {"0": -2}}'),
        ("endingOffsets", "null"),
        ("minPartitions", "0"),
        ("minPartitions", "-1"),
        ("minPartitions", "many"),
        ("minPartitions", ""),
        ("maxRecordsPerPartition", "0"),
        ("maxRecordsPerPartition", "1.5"),
        ("failOnDataLoss", "yes"),
    ],
)
def test_a_bad_value_is_answered_with_the_options_name(option: str, value: str) -> None:
    with pytest.raises(BadOption, match=f"^option {option}: ") as caught:
        parse(**{option: value})
    assert caught.value.option == option


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("subscribePattern", "a("),
        ("assign", "audit"),
        ("assign", '["audit"]'),
        ("assign", '{"audit": 0}'),
        ("assign", '{"audit": ["0"]}'),
        ("assign", '{"audit": [-1]}'),
        ("assign", '{"audit": [true]}'),
        ("assign", "{}"),
    ],
)
def test_a_bad_choice_of_queues_is_answered_with_the_options_name(option: str, value: str) -> None:
    with pytest.raises(BadOption, match=f"^option {option}: "):
        parse_read_options({"path": "/data", option: value})


def test_a_path_is_needed() -> None:
    with pytest.raises(BadOption, match="option path: give the broker's data directory"):
        parse_read_options({"subscribe": "audit"})


@pytest.mark.parametrize("names", [(), ("subscribe", "assign"), ("subscribe", "subscribePattern")])
def test_exactly_one_choice_of_queues_is_needed(names: tuple[str, ...]) -> None:
    with pytest.raises(BadOption, match="give exactly one of them"):
        parse_read_options({"path": "/data"} | dict.fromkeys(names, "audit"))


def test_an_unknown_option_is_named_with_the_likely_one() -> None:
    with pytest.raises(BadOption, match="option startingOffset: unknown; did you mean startingO"):
        parse(startingOffset="earliest")
    with pytest.raises(BadOption, match="option colour: unknown; there are assign, ") as caught:
        parse(colour="red")
    assert all(option in str(caught.value) for option in OPTIONS)
