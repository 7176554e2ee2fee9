"""The options of a read: what they mean, and how a mistake is answered."""

import pickle
from pathlib import Path
from typing import cast

import pytest
from unit.spark_bridge.documented import documented_options

from routelog.spark_bridge.logs.errors import BadOption
from routelog.spark_bridge.logs.log_place import LogPlace
from routelog.spark_bridge.logs.offset_limit import Limit
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange, ReadableLogs
from routelog.spark_bridge.reading.read_options import OPTIONS, ReadOptions, parse_read_options

GIVEN = {"path": "/data", "subscribe": "audit"}
LATEST_IF_NONE = {"startingOffsetsByTimestampStrategy": "latest"}
PARTITIONS = [LogPartition("/", queue, n) for queue in ("audit", "orders") for n in (0, 1)]


def parse(**options: str) -> ReadOptions:
    return parse_read_options(GIVEN | options)


def selected(**options: str) -> list[tuple[str, int]]:
    choice = parse_read_options({"path": "/data"} | options).selection.select(PARTITIONS)
    return [(each.queue, each.partition) for each in choice]


class TimedStore:
    """Partition 0 received offset 7 at second 1,700,000,000; others received nothing."""

    def offset_at(self, partition: LogPartition, time: int) -> int | None:
        return 7 if partition.partition == 0 and time <= 1_700_000_000_000_000 else None


def limit_of(limit: Limit, partition: LogPartition, earliest: int, latest: int) -> int:
    return limit.offset(
        cast(ReadableLogs, TimedStore()), OffsetRange(partition, earliest, latest, 0)
    )


def test_the_defaults_read_everything_in_the_default_vhost() -> None:
    options = parse()
    assert (options.place, options.vhost) == (LogPlace(Path("/data")), "/")
    assert limit_of(options.starting, PARTITIONS[0], 5, 9) == 5
    assert limit_of(options.ending, PARTITIONS[0], 5, 9) == 9
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
    assert [limit_of(options.starting, each, 5, 30) for each in (first, second)] == [17, 5]
    assert [limit_of(options.ending, each, 5, 30) for each in (first, second)] == [30, 20]


def test_offsets_must_cover_exactly_the_partitions_read() -> None:
    limit = parse(startingOffsets='{"audit": {"0": 17, "7": 1}}').starting
    with pytest.raises(BadOption, match="startingOffsets: has nothing for 'audit:1'"):
        limit.check_covers(PARTITIONS[:2])
    with pytest.raises(BadOption, match="startingOffsets: names 'audit:7', which are not"):
        limit.check_covers(PARTITIONS[:1])


BAD_VALUES = [
    ("subscribe", " , "),
    ("startingOffsets", "newest"),
    ("startingOffsets", "17"),
    ("startingOffsets", "[]"),
    ("startingOffsets", '{"audit": 17}'),
    ("startingOffsets", '{"audit": {"0": "17"}}'),
    ("startingOffsets", '{"audit": {"0": true}}'),
    ("startingOffsets", '{"audit": {"0": -3}}'),
    ("startingOffsets", '{"audit": {"x": 1}}'),
    ("startingOffsets", '{"audit": {"0": 1}'),
    ("endingOffsets", "Earliest"),
    ("endingOffsets", '{"audit": {"0": -2}}'),
    ("endingOffsets", "null"),
    ("minPartitions", "0"),
    ("minPartitions", "-1"),
    ("minPartitions", "many"),
    ("minPartitions", ""),
    ("maxBytesPerPartition", "0"),
    ("maxBytesPerPartition", "half"),
    ("maxRecordsPerPartition", "0"),
    ("maxRecordsPerPartition", "1.5"),
    ("maxRecordsPerPartition", "9223372036854775808"),
    ("failOnDataLoss", "yes"),
    ("includeHeaders", "1"),
    ("pushdown", ""),
    ("schemaStyle", "pulsar"),
    ("columns", "offset,,body"),
    ("columns", "offset,offset"),
    ("columns", ""),
    ("startingTimestamp", "yesterday"),
    ("startingTimestamp", "-1"),
    ("startingTimestamp", ""),
    ("endingTimestamp", "2024-13-01"),
    ("startingOffsetsByTimestamp", "1700000000000"),
    ("startingOffsetsByTimestamp", '{"audit": {"0": "soon"}}'),
    ("startingOffsetsByTimestamp", '{"audit": {"0": true}}'),
    ("startingOffsetsByTimestamp", '{"audit": {"0": -1}}'),
    ("endingOffsetsByTimestamp", '{"audit": [1]}'),
    ("startingOffsetsByTimestampStrategy", "earliest"),
    ("maxOffsetsPerTrigger", "0"),
    ("maxOffsetsPerTrigger", "-5"),
    ("minOffsetsPerTrigger", "some"),
    ("maxTriggerDelay", "15 minutes"),
    ("maxTriggerDelay", "-1s"),
    ("maxTriggerDelay", ""),
    ("maxBytesPerTrigger", "0"),
    ("maxBytesPerTrigger", "0k"),
    ("maxBytesPerTrigger", "1.5m"),
    ("maxBytesPerTrigger", "10 parsecs"),
    ("maxBytesPerTrigger", "8388608t"),
]
BAD_SELECTIONS = [
    ("subscribePattern", "a("),
    ("assign", "audit"),
    ("assign", '["audit"]'),
    ("assign", '{"audit": 0}'),
    ("assign", '{"audit": ["0"]}'),
    ("assign", '{"audit": [-1]}'),
    ("assign", '{"audit": [true]}'),
    ("assign", "{}"),
    ("remote", "ftp://host/x"),
    ("remote", "file://folder"),
]
BAD_PLACES = [
    ("path", ""),
    ("url", ""),
    ("url", "broker"),
    ("url", "amqp://anna:secret@broker"),
    ("fetchTimeout", "soon"),
    ("fetchTimeout", "0"),
    ("fetchRetries", "-1"),
    ("fetchRetries", "often"),
    ("consumerName", ""),
    ("consumerName", "n" * 256),
    ("tlsAuthorities", "/etc/ca.pem"),
    ("tlsCertificate", "/etc/client.pem"),
    ("tlsKey", "/etc/client.key"),
]
NEEDS_THE_LOGS = {"vhost"}  # see test_read_plan.py: any text may be a name


@pytest.mark.parametrize(("option", "value"), BAD_VALUES)
def test_a_bad_value_is_answered_with_the_options_name(option: str, value: str) -> None:
    with pytest.raises(BadOption, match=f"^option {option}: ") as caught:
        parse(**{option: value})
    assert caught.value.option == option


@pytest.mark.parametrize(("option", "value"), BAD_SELECTIONS)
def test_a_bad_choice_of_queues_is_answered_with_the_options_name(option: str, value: str) -> None:
    with pytest.raises(BadOption, match=f"^option {option}: "):
        parse_read_options({"path": "/data", option: value})


@pytest.mark.parametrize(("option", "value"), BAD_PLACES)
def test_a_bad_place_of_the_logs_is_answered_with_the_options_name(option: str, value: str) -> None:
    place = {} if option == "path" else {"url": "http://anna:secret@broker"}
    with pytest.raises(BadOption) as caught:
        parse_read_options({"subscribe": "audit", **place, option: value})
    # Without any place, the one that comes first is asked for.
    assert caught.value.option == ("path" if (option, value) == ("url", "") else option)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("option", sorted({option for option, _ in BAD_PLACES} - {"path", "url"}))
def test_what_is_for_a_url_is_refused_with_a_path(option: str) -> None:
    with pytest.raises(BadOption, match=f"^option {option}: is for logs that are read from a url"):
        parse(**{option: "1"})


def test_each_option_has_bad_values_here_and_a_line_in_the_documentation() -> None:
    tried = {option for option, _ in (*BAD_VALUES, *BAD_SELECTIONS, *BAD_PLACES)}
    assert tried | NEEDS_THE_LOGS == set(OPTIONS)
    assert documented_options("## Options") == set(OPTIONS)


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
    with pytest.raises(BadOption, match="option xyzzy: unknown; there are assign, ") as caught:
        parse(xyzzy="1")
    assert all(option in str(caught.value) for option in OPTIONS)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"audit": {"0": -1}}'),
        ("maxOffsetsPerTrigger", "5"),
        ("minOffsetsPerTrigger", "5"),
        ("maxTriggerDelay", "5m"),
        ("maxBytesPerTrigger", "5"),
    ],
)
def test_what_makes_sense_in_streams_only_is_refused_in_batches(option: str, value: str) -> None:
    options = parse(**{option: value})
    with pytest.raises(BadOption, match=f"^option {option}: "):
        options.check_batch()
    parse().check_batch()


def test_the_least_of_a_micro_batch_is_not_above_its_most() -> None:
    parse(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5")
    with pytest.raises(BadOption, match=r"^option minOffsetsPerTrigger: 6 is above maxOffsets"):
        parse(minOffsetsPerTrigger="6", maxOffsetsPerTrigger="5")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1500", 1.5), ("500ms", 0.5), ("30 s", 30), ("15m", 900), ("15MIN", 900), ("2h", 7200)],
)
def test_durations_are_written_as_for_spark(text: str, seconds: float) -> None:
    assert parse(maxTriggerDelay=text).trigger.delay_max == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("64k", 65536), ("64 KB", 65536), ("2g", 2**31)]
)
def test_sizes_may_have_a_unit(text: str, size: int) -> None:
    assert parse(maxBytesPerTrigger=text).trigger.bytes_max == size
    assert parse(maxBytesPerPartition=text).bytes_max == size


@pytest.mark.parametrize(
    "time",
    [
        "1700000000000",
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:20",
        "2023-11-14T23:13:20+01:00",
    ],
)
def test_a_start_may_be_a_time(time: str) -> None:
    limit = parse(startingTimestamp=time).starting
    assert limit_of(limit, PARTITIONS[0], 0, 9) == 7
    limit.check_covers(PARTITIONS)
    one = parse(startingOffsetsByTimestamp=f'{{"audit": {{"0": "{time}"}}}}').starting
    assert limit_of(one, PARTITIONS[0], 0, 9) == 7
    with pytest.raises(BadOption, match="startingOffsetsByTimestamp: has nothing for 'audit:1'"):
        one.check_covers(PARTITIONS[:2])


def test_microseconds_of_a_time_are_exact() -> None:
    limit = parse(startingTimestamp="2023-11-14T22:13:20.000001Z", **LATEST_IF_NONE).starting
    assert limit_of(limit, PARTITIONS[0], 0, 9) == 9


def test_a_time_without_records_is_an_error_or_the_latest() -> None:
    later = {"startingTimestamp": "1700000000001"}
    strict = parse(**later).starting
    with pytest.raises(BadOption, match="startingTimestamp: partition 0 of queue 'audit' in vhost"):
        limit_of(strict, PARTITIONS[0], 0, 9)
    lenient = parse(**later, **LATEST_IF_NONE).starting
    assert limit_of(lenient, PARTITIONS[0], 0, 9) == 9
    assert (strict.is_lasting, lenient.is_lasting) == (True, False)
    ending = parse(endingTimestamp="1700000000001").ending
    assert limit_of(ending, PARTITIONS[0], 0, 9) == 9


def test_the_time_for_all_goes_before_times_before_offsets() -> None:
    offsets = {"startingOffsets": '{"audit": {"0": 1, "1": 1}}'}
    times = {"startingOffsetsByTimestamp": '{"audit": {"0": 1699999999999, "1": 0}}'}
    everywhere = {"startingTimestamp": "1700000000001"}
    assert limit_of(parse(**offsets).starting, PARTITIONS[0], 0, 9) == 1
    assert limit_of(parse(**offsets, **times).starting, PARTITIONS[0], 0, 9) == 7
    last = parse(**offsets, **times, **everywhere, **LATEST_IF_NONE)
    assert limit_of(last.starting, PARTITIONS[0], 0, 9) == 9


def test_a_strategy_alone_is_no_start() -> None:
    assert not parse(**LATEST_IF_NONE).starting_is_given
    for option, value in (("startingOffsets", "latest"), ("startingTimestamp", "0")):
        assert parse(**{option: value}).starting_is_given


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"remote": "file:///cold"}, LogPlace(remote="file:///cold")),
        (
            {"remote": "file:///cold", "path": "/data"},
            LogPlace(Path("/data"), remote="file:///cold"),
        ),
    ],
)
def test_remote_storage_is_a_place_alone_or_beside_another(
    given: dict[str, str], place: LogPlace
) -> None:
    assert parse_read_options({"subscribe": "audit", **given}).place == place
