"""Methods: what pamqp writes is read, what it cannot read we write alike, and strangers are refused."""

import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import base, commands
from pamqp import frame as pamqp_frame
from support.sampling import examples

from routelog.amqp_front.wire.errors import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_ERROR,
    NOT_IMPLEMENTED,
    SYNTAX_ERROR,
    HardError,
)
from routelog.amqp_front.wire.methods import (
    ACCESS_REQUEST,
    AccessRequest,
    decode_method,
    encode_method,
)

KINDS: list[type[Any]] = sorted(commands.INDEX_MAPPING.values(), key=lambda kind: kind.index)

# By class and method of the specification's chassis lists: what a client may send.
FROM_CLIENT = {
    "Connection.StartOk",
    "Connection.SecureOk",
    "Connection.TuneOk",
    "Connection.Open",
    "Connection.Close",
    "Connection.CloseOk",
    "Connection.UpdateSecret",
    "Channel.Open",
    "Channel.Flow",
    "Channel.FlowOk",
    "Channel.Close",
    "Channel.CloseOk",
    "Exchange.Declare",
    "Exchange.Delete",
    "Exchange.Bind",
    "Exchange.Unbind",
    "Queue.Declare",
    "Queue.Bind",
    "Queue.Unbind",
    "Queue.Purge",
    "Queue.Delete",
    "Basic.Qos",
    "Basic.Consume",
    "Basic.Cancel",
    "Basic.CancelOk",
    "Basic.Publish",
    "Basic.Get",
    "Basic.Ack",
    "Basic.Nack",
    "Basic.Reject",
    "Basic.Recover",
    "Basic.RecoverAsync",
    "Confirm.Select",
    "Tx.Select",
    "Tx.Commit",
    "Tx.Rollback",
}
CLIENT_KINDS = [kind for kind in KINDS if kind.name in FROM_CLIENT]
SERVER_KINDS = [kind for kind in KINDS if kind.name not in FROM_CLIENT]

# Values that pamqp allows too, by the type of the argument.
VALUES: dict[str, list[Any]] = {
    "bit": [False, True],
    "octet": [0, 9, 255],
    "short": [0, 77, 65_535],
    "long": [0, 5_000, 2**32 - 1],
    "longlong": [0, 2**40, 2**63 - 1],
    "shortstr": ["", "name", "n" * 127],
    "longstr": ["", "text", "t" * 500],
    "table": [{}, {"x-max-length": 5, "deep": {"a": [1, "b", None]}}, {"t": True}],
}
FIXED = {"virtual_host": "/", "exchange_type": "direct", "ticket": 0, "known_hosts": ""}


def named(kinds: list[type[Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.name)


def arguments(kind: type[Any], turn: int) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for at, name in enumerate(kind.attributes()):
        values = VALUES[kind.amqp_type(name)]
        chosen[name] = FIXED.get(name, values[(turn + at * (turn > 2)) % len(values)])
    if kind is commands.Connection.StartOk:
        chosen |= {"response": "\0guest\0guest", "mechanism": "PLAIN"}
    return chosen | _deprecated(kind)


def _deprecated(kind: type[Any]) -> dict[str, Any]:
    """Arguments that pamqp insists on a value for."""
    values: dict[str, Any] = {
        "insist": False,
        "capabilities": "",
        "out_of_band": "0",
        "channel_id": "0",
    }
    if kind is commands.Basic.GetEmpty:
        values["cluster_id"] = ""
    return {name: value for name, value in values.items() if name in kind.attributes()}


def constructed(kind: type[Any], values: dict[str, Any]) -> base.Frame:
    accepted = inspect.signature(kind.__init__).parameters
    built: base.Frame = kind(**{name: value for name, value in values.items() if name in accepted})
    return built


def payload_of(frame: bytes) -> bytes:
    assert frame[0] == 1
    assert frame[-1] == 0xCE
    assert int.from_bytes(frame[3:7], "big") == len(frame) - 8
    return frame[7:-1]


def refused(payload: bytes) -> int:
    with pytest.raises(HardError) as caught:
        decode_method(payload)
    return caught.value.code


@named(KINDS)
@pytest.mark.filterwarnings("ignore:This command is deprecated")
@pytest.mark.parametrize("turn", range(6))
def test_methods_are_written_as_pamqp_writes_them(kind: type[Any], turn: int) -> None:
    values = arguments(kind, turn)
    if kind is commands.Basic.Consume or kind is commands.Queue.Bind:
        values["arguments"] = {"x-priority": turn}
    expected = pamqp_frame.marshal(constructed(kind, values), 5)
    assert encode_method(5, kind, **values) == expected


@named(CLIENT_KINDS)
@pytest.mark.parametrize("turn", range(6))
def test_methods_of_clients_are_read(kind: type[Any], turn: int) -> None:
    values = arguments(kind, turn)
    method = decode_method(payload_of(encode_method(1, kind, **values)))
    assert type(method) is kind
    for name in kind.attributes():
        expected = values[name]
        if kind.amqp_type(name) == "longstr":
            expected = expected.encode()
        assert getattr(method, name) == expected


@named(CLIENT_KINDS)
def test_methods_that_are_cut_off_are_refused(kind: type[Any]) -> None:
    payload = payload_of(encode_method(1, kind, **arguments(kind, 1)))
    for end in range(4, len(payload)):
        assert refused(payload[:end]) == FRAME_ERROR


@named(CLIENT_KINDS)
def test_octets_behind_the_last_argument_are_refused(kind: type[Any]) -> None:
    payload = payload_of(encode_method(1, kind, **arguments(kind, 1)))
    assert refused(payload + b"\0") == FRAME_ERROR


@named(SERVER_KINDS)
def test_what_only_a_server_sends_is_refused(kind: type[Any]) -> None:
    payload = payload_of(encode_method(1, kind, **arguments(kind, 1)))
    in_class_connection = kind.name.startswith("Connection.")
    assert refused(payload) == (CHANNEL_ERROR if in_class_connection else COMMAND_INVALID)


@pytest.mark.parametrize("index", [0, 0x000A0000, 0x0014002A, 0x003C0000, 0x00460001, 0xFFFFFFFF])
def test_an_unknown_method_is_refused(index: int) -> None:
    assert refused(index.to_bytes(4, "big") + bytes(20)) == NOT_IMPLEMENTED


def test_access_request_is_known() -> None:
    assert isinstance(decode_method(ACCESS_REQUEST.to_bytes(4, "big") + b"\x01/\0"), AccessRequest)


def test_bad_values_within_a_method_are_refused() -> None:
    declare = commands.Queue.Declare.index.to_bytes(4, "big") + bytes(2)
    assert refused(declare + b"\x01\xff" + b"\0" + bytes(4)) == FRAME_ERROR
    assert refused(declare + b"\x01q" + b"\0" + b"\0\0\0\x03\x01a?") == SYNTAX_ERROR
    assert refused(declare + b"\x01q" + b"\0" + b"\0\0\0\x02\x01a") == FRAME_ERROR
    assert refused(declare + b"\x01q" + b"\0" + b"\xff\xff\xff\xff") == FRAME_ERROR
    deep = b""
    for _ in range(40):
        deep = b"\x01nF" + len(deep).to_bytes(4, "big") + deep
    assert refused(declare + b"\x01q" + b"\0" + len(deep).to_bytes(4, "big") + deep) == FRAME_ERROR


def test_names_beyond_the_specification_are_read() -> None:
    name = "čeština ☃ / with spaces\n" * 5
    payload = payload_of(encode_method(1, commands.Queue.Delete, queue=name))
    assert decode_method(payload).queue == name


def test_bits_share_octets() -> None:
    values = {"queue": "q", "passive": True, "auto_delete": True, "nowait": True}
    payload = payload_of(encode_method(1, commands.Queue.Declare, **values))
    assert payload == b"\0\x32\0\x0a\0\0\x01q\x19\0\0\0\0"
    method = decode_method(payload[:8] + b"\xe6" + payload[9:])
    bits = (method.passive, method.durable, method.exclusive, method.auto_delete, method.nowait)
    assert bits == (False, True, True, False, False)


def test_short_strings_have_255_octets_at_most() -> None:
    encode_method(1, commands.Queue.DeclareOk, queue="é" * 127)
    encode_method(1, commands.Queue.DeclareOk, queue=b"q" * 255)
    with pytest.raises(ValueError, match="255"):
        encode_method(1, commands.Queue.DeclareOk, queue="é" * 128)


@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(index=st.sampled_from(sorted(commands.INDEX_MAPPING)), rest=st.binary(max_size=40))
def test_noise_behind_a_method_is_refused_or_read(index: int, rest: bytes) -> None:
    payload = index.to_bytes(4, "big") + rest
    try:
        method = decode_method(payload)
    except HardError:
        return
    assert all(hasattr(method, name) for name in method.attributes())
