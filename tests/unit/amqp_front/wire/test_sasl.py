"""SASL responses of clients and of strangers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import encode
from support.sampling import examples

from routelog.amqp_front.wire.sasl import MECHANISMS, MalformedResponse, credentials


def amqplain(**fields: object) -> bytes:
    return encode.field_table(fields)[4:]


def test_plain_has_user_and_password() -> None:
    assert credentials("PLAIN", b"\0guest\0secret") == ("guest", b"secret")
    assert credentials("PLAIN", b"authzid\0guest\0secret") == ("guest", b"secret")
    assert credentials("PLAIN", "\0josé\0ключ".encode()) == ("josé", "ключ".encode())
    assert credentials("PLAIN", b"\0guest\0\xff\xfe") == ("guest", b"\xff\xfe")
    assert credentials("PLAIN", b"\0\0") == ("", b"")


@pytest.mark.parametrize("response", [b"", b"\0", b"guest", b"\0a\0b\0c", b"a\0b", b"\0\xff\0p"])
def test_a_malformed_plain_response_is_refused(response: bytes) -> None:
    with pytest.raises(MalformedResponse):
        credentials("PLAIN", response)


def test_amqplain_has_user_and_password() -> None:
    assert credentials("AMQPLAIN", amqplain(LOGIN="guest", PASSWORD="p")) == ("guest", b"p")
    assert credentials("AMQPLAIN", amqplain(PASSWORD="é", x=1, LOGIN="u")) == ("u", "é".encode())
    binary = amqplain(LOGIN="u") + b"\x08PASSWORDS\0\0\0\x02\xff\xfe"
    assert credentials("AMQPLAIN", binary) == ("u", b"\xff\xfe")


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\x05LOGIN",
        b"\x05LOGINS\0\0\0\xffu",
        b"\0guest\0secret",
        amqplain(LOGIN="u"),
        amqplain(PASSWORD="p"),
        amqplain(LOGIN=5, PASSWORD="p"),
        amqplain(LOGIN="u", PASSWORD=5),
        amqplain(LOGIN="u", PASSWORD=None),
        amqplain(LOGIN={"a": 1}, PASSWORD=["p"]),
        b"\x05LOGINS\0\0\0\x01\xff" + amqplain(PASSWORD="p"),
        b"\x05LOGIN?",
    ],
)
def test_a_malformed_amqplain_response_is_refused(response: bytes) -> None:
    with pytest.raises(MalformedResponse):
        credentials("AMQPLAIN", response)


@pytest.mark.parametrize("mechanism", ["", "plain", "EXTERNAL", "SCRAM-SHA-256", "PLAIN "])
def test_a_mechanism_that_is_not_offered_is_refused(mechanism: str) -> None:
    with pytest.raises(MalformedResponse):
        credentials(mechanism, b"\0guest\0guest")


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(mechanism=st.sampled_from(MECHANISMS), response=st.binary(max_size=60))
def test_noise_is_refused_or_gives_a_name_and_a_password(mechanism: str, response: bytes) -> None:
    try:
        name, password = credentials(mechanism, response)
    except MalformedResponse:
        return
    assert isinstance(name, str)
    assert isinstance(password, bytes)
