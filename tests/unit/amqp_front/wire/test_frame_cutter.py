"""The frame cutter: every stream is cut into the same commands, however it arrives."""

from array import array

import pytest
from support.frame_samples import (
    ACK,
    SAMPLES,
    Cut,
    byte_by_byte,
    cut,
    publish,
    publish_frames,
    raw_frame,
    reference,
    settlements,
    some_properties,
)

from routelog.amqp_front.wire.command import (
    CARBON_COPY,
    RUN_RECORDS_MAX,
    BegunPublish,
    Command,
    Frame,
    PublishRun,
    SettleRun,
)
from routelog.amqp_front.wire.errors import FRAME_ERROR, UNEXPECTED_FRAME, HardError
from routelog.amqp_front.wire.frame_cutter import FrameCutter

FRAME_MAX = 131_072


def cutter_of(stream: bytes, payload_max: int = FRAME_MAX) -> FrameCutter:
    cutter = FrameCutter(FRAME_MAX)
    cutter.receive_into(b"")[: len(stream)] = stream
    cutter.received(len(stream), payload_max)
    return cutter


def commands_of(stream: bytes) -> list[Command]:
    cutter = cutter_of(stream)
    return list(iter(lambda: cutter.next(False), None))


def refused(stream: bytes, payload_max: int = FRAME_MAX) -> tuple[int, str]:
    cutter = cutter_of(stream, payload_max)
    with pytest.raises(HardError) as caught:
        list(iter(lambda: cutter.next(False), None))
    return caught.value.code, caught.value.reason


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_cut_alike_whole_byte_by_byte_and_with_trailing_bytes(name: str) -> None:
    stream = SAMPLES[name]
    expected = reference(stream)
    assert cut(FrameCutter(FRAME_MAX), [stream]) == Cut(expected, None, b"")
    assert cut(FrameCutter(FRAME_MAX), byte_by_byte(stream)) == Cut(expected, None, b"")
    for trailing in (b"\x01", b"\x01\x00\x01\x00\x00", publish(1, "x", "k", b"cut off")[:-1]):
        outcome = cut(FrameCutter(FRAME_MAX), [stream + trailing])
        assert outcome.commands[: len(expected)] == expected
        assert outcome.error is None


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_can_be_split_anywhere(name: str) -> None:
    stream = SAMPLES[name]
    expected = Cut(reference(stream), None, b"")
    cutter = FrameCutter(FRAME_MAX)
    for at in range(0, len(stream) + 1, max(1, len(stream) // 60)):
        assert cut(cutter, [stream[:at], stream[at:]]) == expected


def test_publishes_with_one_key_are_one_run() -> None:
    (run,) = commands_of(publish(1, "logs", "k", b"body") * 1000)
    assert isinstance(run, PublishRun)
    assert (run.count, run.routing_key, run.exchange) == (1000, b"k", b"logs")


def test_publishes_with_several_keys_are_one_run() -> None:
    stream = b"".join(publish(1, "logs", f"k{n}", b"body") for n in range(500))
    (run,) = commands_of(stream)
    assert isinstance(run, PublishRun)
    assert run.routing_key is None
    assert run.keys() == [b"k%d" % n for n in range(500)]


def test_a_run_ends_at_the_end_of_the_record_table() -> None:
    one = raw_frame(1, 1, b"\0\x3c\0\x28\0\0\0\0\0") + raw_frame(2, 1, b"\0\x3c" + bytes(12))
    count = min(RUN_RECORDS_MAX + 5, 262_144 // len(one))
    runs = commands_of(one * count)
    assert [run.count for run in runs if isinstance(run, PublishRun)] == (
        [RUN_RECORDS_MAX, count - RUN_RECORDS_MAX] if count > RUN_RECORDS_MAX else [count]
    )


def test_the_record_table_is_never_written_beyond_its_end() -> None:
    one = raw_frame(1, 1, b"\0\x3c\0\x28\0\0\0\0\0") + raw_frame(2, 1, b"\0\x3c" + bytes(12))
    cutter = FrameCutter(1024 * 1024)
    stream = one * (RUN_RECORDS_MAX + 5)
    cutter.receive_into(b"")[: len(stream)] = stream
    cutter.received(len(stream), FRAME_MAX)
    runs = iter(lambda: cutter.next(False), None)
    counts = [run.count for run in runs if isinstance(run, PublishRun)]
    assert counts == [RUN_RECORDS_MAX, 5]


@pytest.mark.parametrize(
    ("limit", "counts"),
    [(1, [1] * 7), (3, [3, 3, 1]), (RUN_RECORDS_MAX + 1, [7])],
)
def test_a_run_is_no_longer_than_it_may_be(limit: int, counts: list[int]) -> None:
    stream = publish(1, "logs", "k", b"body") * 7
    cutter = FrameCutter(FRAME_MAX)
    cutter.receive_into(b"")[: len(stream)] = stream
    cutter.received(len(stream), FRAME_MAX, limit)
    runs = iter(lambda: cutter.next(False), None)
    assert [run.count for run in runs if isinstance(run, PublishRun)] == counts


def test_the_table_bounds_a_run_whatever_the_limit() -> None:
    one = raw_frame(1, 1, b"\0\x3c\0\x28\0\0\0\0\0") + raw_frame(2, 1, b"\0\x3c" + bytes(12))
    cutter = FrameCutter(1024 * 1024)
    stream = one * (RUN_RECORDS_MAX + 5)
    cutter.receive_into(b"")[: len(stream)] = stream
    cutter.received(len(stream), FRAME_MAX, 2 * RUN_RECORDS_MAX)
    run = cutter.next(False)
    assert isinstance(run, PublishRun)
    assert run.count == RUN_RECORDS_MAX


def test_acks_in_a_row_are_one_run() -> None:
    (run,) = commands_of(settlements(1, ACK, range(3, 2003)))
    assert isinstance(run, SettleRun)
    assert (run.first, run.last, run.multiple, run.outcome) == (3, 2002, False, ACK)


def test_a_run_of_acks_does_not_wrap_around_the_largest_tag() -> None:
    acks = [b"\0\x3c\0\x50" + tag.to_bytes(8, "big") + b"\0" for tag in (2**64 - 1, 0, 1)]
    runs = commands_of(b"".join(raw_frame(1, 1, ack) for ack in acks))
    tags = [(run.first, run.last) for run in runs if isinstance(run, SettleRun)]
    assert tags == [(2**64 - 1, 2**64 - 1), (0, 0), (1, 1)]


def test_each_part_takes_its_selection_in_its_order() -> None:
    stream = b"".join(publish(1, "x", f"k{n}", b"body%d" % n) for n in range(5))
    (run,) = commands_of(stream)
    assert isinstance(run, PublishRun)
    parts = run.parts([[3, 1, 1], [4], [0, 2]], 0, 42)
    keys = [[part.routing_key(at) for at in range(part.count)] for part in parts]
    assert keys == [[b"k3", b"k1", b"k1"], [b"k4"], [b"k0", b"k2"]]
    assert [parts[0].body(at) for at in range(3)] == [b"body3", b"body1", b"body1"]
    assert [parts[2].body(at) for at in range(2)] == [b"body0", b"body2"]
    assert [(part.exchange, part.time) for part in parts] == [(b"x", 42)] * 3


def test_the_copy_of_a_run_survives_the_next_read() -> None:
    cutter = cutter_of(publish(1, "x", "k", b"first"))
    run = cutter.next(False)
    assert isinstance(run, PublishRun)
    records = run.records(0, 0)
    cutter.receive_into(b"\xff" * 300)
    assert records.body(0) == b"first"


def test_nothing_is_merged_while_content_is_assembled() -> None:
    cutter = cutter_of(publish(1, "x", "k", b"abc") + settlements(1, ACK, (1, 2)))
    kinds = [type(command) for command in iter(lambda: cutter.next(True), None)]
    assert kinds == [Frame] * 5


def test_a_protocol_header_is_taken_when_it_is_whole() -> None:
    cutter = cutter_of(b"AMQP\0\0\x09")
    assert cutter.take_header() is None
    assert cutter.unread() == b"AMQP\0\0\x09"
    cutter = cutter_of(b"AMQP\0\0\x09\x01rest")
    assert cutter.take_header() == b"AMQP\0\0\x09\x01"
    assert cutter.unread() == b"rest"


def test_the_largest_publish_fits_into_the_buffer_with_what_is_unread() -> None:
    properties = some_properties(headers={"h": "x" * (FRAME_MAX - 40)})
    stream = publish(1, "x" * 127, "k" * 255, b"b" * FRAME_MAX, properties)
    chunks = [stream[at : at + 1000] for at in range(0, len(stream), 1000)]
    assert cut(FrameCutter(FRAME_MAX), chunks) == Cut(reference(stream), None, b"")


@pytest.mark.parametrize("kind", [0, 4, 5, 6, 7, 9, 65, 255])
def test_an_unknown_frame_type_is_refused_with_its_header(kind: int) -> None:
    assert refused(raw_frame(kind, 0, b"")[:7])[0] == FRAME_ERROR


def test_a_frame_that_does_not_end_with_206_is_refused() -> None:
    good = publish(1, "x", "k", b"c") * 2
    assert refused(raw_frame(1, 1, b"\0\x14\0\x0a\0", end=0xCD))[0] == FRAME_ERROR
    bad = bytearray(good)
    bad[-1] = 0
    outcome = cut(FrameCutter(FRAME_MAX), [bytes(bad)])
    assert len(outcome.commands) == 1
    assert outcome.error is not None
    assert outcome.error[1] == FRAME_ERROR


def test_a_frame_above_the_limit_is_refused_before_it_is_there() -> None:
    assert refused(raw_frame(1, 1, bytes(4097))[:7], payload_max=4096)[0] == FRAME_ERROR
    assert cutter_of(raw_frame(1, 1, bytes(4096))[:7], payload_max=4096).next(False) is None
    assert refused(b"\x01\0\x01\xff\xff\xff\xff")[0] == FRAME_ERROR


@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_frames_of_a_publish_obey_the_limit_of_the_connection(at: int) -> None:
    sizes = [0, 0, 0]
    sizes[at] = 4097
    frames = publish_frames(1, "x", "k", b"b" * 5)
    padded = [
        raw_frame(frame[0], 1, frame[7:-1] + bytes(size)) if size else frame
        for frame, size in zip(frames, sizes, strict=True)
    ]
    assert refused(b"".join(padded), payload_max=4096)[0] == FRAME_ERROR


def test_large_contents_obey_the_limit_of_the_connection() -> None:
    largest = some_properties(headers={"h": "x" * (4096 - 12 - 2 - 4 - 2 - 5)})
    (run,) = commands_of(publish(1, "x", "k", b"b" * 4096, largest))
    assert isinstance(run, PublishRun)
    stream = publish(1, "x", "k", b"b" * 4096, largest)
    assert isinstance(cutter_of(stream, payload_max=4096).next(False), PublishRun)
    larger = some_properties(headers={"h": "x" * (4097 - 12 - 2 - 4 - 2 - 5)})
    assert refused(publish(1, "x", "k", b"b", larger), payload_max=4096)[0] == FRAME_ERROR
    assert refused(publish(1, "x", "k", b"b" * 4097), payload_max=4096)[0] == FRAME_ERROR


@pytest.mark.parametrize(("at", "kinds"), [(1, [Frame] * 3), (2, [BegunPublish, Frame])])
def test_content_on_another_channel_is_not_of_the_publish(at: int, kinds: list[type]) -> None:
    frames = publish_frames(1, "x", "k", b"body")
    frames[at] = frames[at][:1] + b"\0\x02" + frames[at][3:]
    assert [type(command) for command in commands_of(b"".join(frames))] == kinds


def test_a_body_in_several_frames_begins_with_what_is_known_of_it() -> None:
    persistent = some_properties(delivery_mode=2, headers={"CC": ["other"]})
    frames = publish_frames(7, "x", "key", b"body" * 10, persistent, mandatory=True, pieces=(1,))
    begun, *bodies = commands_of(b"".join(frames))
    assert isinstance(begun, BegunPublish)
    assert (begun.channel, begun.exchange, begun.routing_key) == (7, b"x", b"key")
    assert (begun.flags, begun.persistent, begun.body_bytes) == (1, True, 40)
    assert begun.property_flags & CARBON_COPY
    assert begun.properties == frames[1][19:-1]
    assert [type(each) for each in bodies] == [Frame, Frame]


@pytest.mark.parametrize("missing", [1, 48, 54, 55])
def test_a_body_that_may_come_in_one_frame_is_waited_for(missing: int) -> None:
    cutter = cutter_of(publish(1, "x", "k", b"b" * 47)[:-missing])
    assert cutter.next(False) is None
    cutter.give_back()
    assert len(cutter.unread()) == len(publish(1, "x", "k", b"b" * 47)) - missing


def test_a_body_larger_than_a_frame_is_not_waited_for() -> None:
    method, header, *_ = publish_frames(1, "x", "k", b"b" * 5_000)
    begun = cutter_of(method + header, payload_max=4_096).next(False)
    assert isinstance(begun, BegunPublish)
    assert begun.body_bytes == 5_000


@pytest.mark.parametrize(
    "arguments",
    [
        b"\0\0\x01x\x01k\0\0",
        b"\0\0\x01x\x02k\0",
        b"\0\0\x01x\x01k",
        b"\0\0\x09x\x01k\0",
        b"\0\0\xffx\x01k\0",
        b"\0\0\x01x\xffk\0",
        b"\0\0",
        b"",
    ],
)
def test_a_malformed_publish_is_left_to_the_strict_reader(arguments: bytes) -> None:
    header, body = publish_frames(1, "x", "k", b"body")[1:]
    malformed = raw_frame(1, 1, b"\0\x3c\0\x28" + arguments)
    commands = commands_of(malformed + header + body)
    assert [type(command) for command in commands] == [Frame] * 3
    first, *rest = commands_of(publish(1, "x", "k", b"") + malformed + header + body)
    assert isinstance(first, PublishRun)
    assert first.count == 1
    assert [type(command) for command in rest] == [Frame] * 3


@pytest.mark.parametrize("size", range(4))
def test_a_method_frame_has_a_method(size: int) -> None:
    assert refused(raw_frame(1, 1, bytes(size)))[0] == FRAME_ERROR


def test_a_heartbeat_is_empty_and_on_channel_0() -> None:
    assert refused(raw_frame(8, 0, b"x"))[0] == FRAME_ERROR
    assert refused(raw_frame(8, 1, b""))[0] == UNEXPECTED_FRAME


@pytest.mark.parametrize("kind", [2, 3])
def test_content_on_channel_0_is_refused(kind: int) -> None:
    assert refused(raw_frame(kind, 0, bytes(14)))[0] == UNEXPECTED_FRAME


# Property lists as octets: (flags and values, whether they may join a run).
PROPERTY_LISTS = [
    (b"\x00\x00", True),
    (b"\x00\x01" + bytes(2), False),  # a continuation of the flags
    (b"\x00\x02", False),  # a bit that no property has
    (b"\x10\x00\x01", True),
    (b"\x10\x00\x02", True),
    (b"\x10\x00\x00", False),
    (b"\x10\x00\x03", False),
    (b"\x10\x00", False),
    (b"\x80\x00\x03abc", True),
    (b"\x80\x00\x04abc", False),
    (b"\x80\x00\x02abc", False),
    (b"\x80\x00", False),
    (b"\x00\x40" + bytes(8), True),
    (b"\x00\x40" + bytes(7), False),
    (b"\x20\x00" + bytes(4), True),
    (b"\x20\x00" + bytes(3), False),
    (b"\x20\x00\x00\x00\x00\x04\x01at\x01", True),
    (b"\x20\x00\x00\x00\x00\x05\x01at\x01", False),
    (b"\x20\x00\x00\x00\x00\x03\x01at\x01", False),
    (b"\x20\x00\x00\x00\x00\x03\x03abc", False),
    (b"\x20\x00\x00\x00\x00\x02\x01a", False),
    (b"\x20\x00\xff\xff\xff\xff", False),
    (b"\x20\x00\x00\x00\x00\x03\x01aV", True),
    (b"\x20\x00\x00\x00\x00\x03\x01a?", False),
    (b"\x20\x00\x00\x00\x00\x08\x01aD" + bytes(5), True),
    (b"\x20\x00\x00\x00\x00\x07\x01aD" + bytes(4), False),
    (b"\x20\x00\x00\x00\x00\x07\x01aS\xff\xff\xff\xff", False),
]


@pytest.mark.parametrize(("octets", "well_formed"), PROPERTY_LISTS)
def test_only_well_formed_properties_join_a_run(octets: bytes, well_formed: bool) -> None:
    header = b"\0\x3c" + bytes(10) + octets
    stream = raw_frame(1, 1, b"\0\x3c\0\x28\0\0\0\x01k\0") + raw_frame(2, 1, header)
    commands = commands_of(stream)
    assert isinstance(commands[0], PublishRun) is well_formed
    # The same as the second message of a run.
    commands = commands_of(publish(1, "", "k", b"") + stream)
    assert isinstance(commands[0], PublishRun)
    assert (commands[0].count == 2) is (well_formed and octets != b"\x10\x00\x02")


@pytest.mark.parametrize("letter", b"tbBsuUIiflLdTDVSxFA")
def test_every_known_field_type_joins_a_run(letter: int) -> None:
    sizes = dict.fromkeys(b"tbB", 1) | dict.fromkeys(b"suU", 2) | dict.fromkeys(b"IifSxFA", 4)
    sizes |= dict.fromkeys(b"lLdT", 8) | {ord("D"): 5, ord("V"): 0}
    field = b"\x01a" + bytes((letter,)) + bytes(sizes[letter])
    table = len(field).to_bytes(4, "big") + field
    header = raw_frame(2, 1, b"\0\x3c" + bytes(10) + b"\x20\x00" + table)
    (run,) = commands_of(raw_frame(1, 1, b"\0\x3c\0\x28\0\0\0\x01k\0") + header)
    assert isinstance(run, PublishRun)
    shorter = (len(field) - 1).to_bytes(4, "big") + field[:-1]
    header = raw_frame(2, 1, b"\0\x3c" + bytes(10) + b"\x20\x00" + shorter)
    commands = commands_of(raw_frame(1, 1, b"\0\x3c\0\x28\0\0\0\x01k\0") + header)
    assert isinstance(commands[0], Frame)


def nested(depth: int, letter: bytes) -> bytes:
    value = b""
    for _ in range(depth - 1):
        name = b"\x01n" if letter == b"F" else b""
        value = name + letter + len(value).to_bytes(4, "big") + value
    if letter == b"A":
        value = b"\x01n" + value if value else value
    return len(value).to_bytes(4, "big") + value


@pytest.mark.parametrize("letter", [b"F", b"A"])
def test_tables_are_nested_32_deep_at_most(letter: bytes) -> None:
    for depth, joins in ((1, True), (32, True), (33, False), (5000, False)):
        header = raw_frame(2, 1, b"\0\x3c" + bytes(10) + b"\x20\x00" + nested(depth, letter))
        commands = commands_of(raw_frame(1, 1, b"\0\x3c\0\x28\0\0\0\x01k\0") + header)
        assert isinstance(commands[0], PublishRun) is joins


def test_a_run_knows_that_some_message_has_carbon_copies() -> None:
    plain = publish(1, "x", "k", b"c", some_properties(headers={"a": 1}))
    for name in ("CC", "BCC"):
        copied = publish(1, "x", "k", b"c", some_properties(headers={name: ["y"], "z": 1}))
        (run,) = commands_of(plain + copied + plain)
        assert isinstance(run, PublishRun)
        assert run.property_flags == 0x2001
    deeper = publish(1, "x", "k", b"c", some_properties(headers={"t": {"CC": ["y"]}, "CCC": 1}))
    (run,) = commands_of(plain + deeper)
    assert isinstance(run, PublishRun)
    assert run.property_flags == 0x2000


def test_rows_index_the_buffer() -> None:
    (run,) = commands_of(publish(1, "x", "key", b"body"))
    assert isinstance(run, PublishRun)
    rows = array("i", run.rows[:6])
    assert bytes(run.source[rows[0] : rows[0] + rows[1]]) == b"key"
    assert bytes(run.source[rows[4] : rows[4] + rows[5]]) == b"body"


@pytest.mark.parametrize("keys", [("k", "k", "k", "k"), ("k", "other", "", "k")])
def test_the_rest_of_a_run_that_is_given_back_comes_again(keys: tuple[str, ...]) -> None:
    messages = [publish(1, "exchange", key, b"body") for key in keys]
    for count in range(1, len(messages)):
        cutter = cutter_of(publish(2, "", "before", b"m") + b"".join(messages))
        cutter.next(False)
        run = cutter.next(False)
        assert isinstance(run, PublishRun)
        cutter.give_back(run.begin(count))
        assert cutter.unread() == b"".join(messages[count:])


def test_a_part_of_a_run_is_a_run_of_its_own() -> None:
    keys = ["a", "b", "c", "d"]
    (run,) = commands_of(b"".join(publish(1, "x", key, key.encode()) for key in keys))
    assert isinstance(run, PublishRun)
    part = run.part(1, 2)
    assert (part.count, part.keys(), part.body(1)) == (2, [b"b", b"c"], b"c")
    records = part.records(0, 1)
    assert [records.body(at) for at in range(records.count)] == [b"b", b"c"]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_command_that_is_given_back_comes_again(name: str) -> None:
    stream = SAMPLES[name]
    cutter = cutter_of(stream)
    rest = stream
    while cutter.next(False) is not None:
        cutter.give_back()
        assert cutter.unread() == rest
        # Kept by its connection while others use the buffer.
        kept = cutter.unread()
        cutter.receive_into(b"other")
        cutter.receive_into(kept)
        assert cutter.next(False) is not None
        rest = cutter.unread()
    assert cut(FrameCutter(FRAME_MAX), [rest]).commands == []
