"""What is offered to a client, and what it may ask for."""

import pytest
from pamqp import commands
from pamqp import frame as pamqp_frame

from routelog.amqp_front.connections.handshake import (
    ACCEPTED_HEADERS,
    CAPABILITIES,
    PROTOCOL_HEADER,
    Tuning,
    agreed_tuning,
    client_capability,
    start_frame,
    tune_frame,
)
from routelog.amqp_front.wire.errors import NOT_ALLOWED, HardError
from routelog.broker.node.configuration import BrokerConfig

CONFIG = BrokerConfig(channel_max=100, frame_max=65_536, heartbeat_seconds=30)


def tune_ok(channel_max: int = 100, frame_max: int = 65_536, heartbeat: int = 30) -> object:
    return commands.Connection.TuneOk(channel_max, frame_max, heartbeat)


def test_start_says_who_we_are() -> None:
    frame = start_frame("routelog@here", ("PLAIN", "AMQPLAIN"))
    used, channel, start = pamqp_frame.unmarshal(frame)
    assert (used, channel) == (len(frame), 0)
    assert isinstance(start, commands.Connection.Start)
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.mechanisms == "PLAIN AMQPLAIN"
    assert start.locales == "en_US"
    properties = start.server_properties
    assert (properties["product"], properties["version"]) == ("RabbitMQ", "3.10.8")
    assert properties["platform"].startswith("RouteLog ")
    assert properties["cluster_name"] == "routelog@here"
    assert properties["capabilities"] == dict.fromkeys(CAPABILITIES, True)
    assert len(frame) < 4096


def test_tune_offers_the_configuration() -> None:
    _, _, tune = pamqp_frame.unmarshal(tune_frame(100, 65_536, 30))
    assert isinstance(tune, commands.Connection.Tune)
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (100, 65_536, 30)


@pytest.mark.parametrize(
    "asked", [(100, 65_536, 30), (1, 4096, 0), (50, 5000, 600), (7, 4096, 65_535)]
)
def test_values_up_to_the_offer_are_agreed(asked: tuple[int, int, int]) -> None:
    assert agreed_tuning(CONFIG, tune_ok(*asked)) == Tuning(*asked)


@pytest.mark.parametrize("channel_max", [0, 101, 65_535])
def test_no_more_channels_than_offered(channel_max: int) -> None:
    with pytest.raises(HardError) as caught:
        agreed_tuning(CONFIG, tune_ok(channel_max=channel_max))
    assert caught.value.code == NOT_ALLOWED
    assert f"channel_max = {channel_max} " in caught.value.reason


@pytest.mark.parametrize("frame_max", [0, 1, 4095, 65_537, 2**32 - 1])
def test_no_larger_frames_than_offered_and_none_too_small(frame_max: int) -> None:
    with pytest.raises(HardError) as caught:
        agreed_tuning(CONFIG, tune_ok(frame_max=frame_max))
    assert caught.value.code == NOT_ALLOWED
    assert f"frame_max = {frame_max} " in caught.value.reason


def test_a_capability_is_said_by_true_alone() -> None:
    name = "consumer_cancel_notify"
    assert client_capability({"capabilities": {name: True}}, name)
    others: list[dict[str, object]] = [
        {},
        {"capabilities": {}},
        {"capabilities": {name: False}},
        {"capabilities": {name: 1}},
        {"capabilities": name},
        {"capabilities": [name]},
        {"capabilities": None},
        {name: True},
    ]
    for properties in others:
        assert not client_capability(properties, name)


def test_the_accepted_headers_are_of_8_octets() -> None:
    assert PROTOCOL_HEADER == b"AMQP\x00\x00\x09\x01"
    assert {len(header) for header in ACCEPTED_HEADERS} == {8}
