"""URIs are taken apart as the specification of AMQP URIs says, and what is none is refused."""

import pytest

from routelog.benchmarks.traffic.endpoint import Endpoint, with_tls_options
from routelog.benchmarks.traffic.unexpected import BadRequest


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("amqp://h", ("h", 5672, "guest", "guest", "/", False)),
        ("amqps://h", ("h", 5671, "guest", "guest", "/", True)),
        ("amqp://u:p%40x@h:1/v%2Fw", ("h", 1, "u", "p@x", "v/w", False)),
        ("amqp://[::1]:7/", ("::1", 7, "guest", "guest", "/", False)),
    ],
)
def test_a_uri_says_where_and_who(uri: str, expected: tuple[object, ...]) -> None:
    e = Endpoint.parse(uri)
    assert (e.host, e.port, e.user, e.password, e.vhost, e.with_tls) == expected


@pytest.mark.parametrize(
    "uri",
    [
        *("", "h:5672", "http://h", "amqp://", "amqp://h:x", "amqp://h:99999", "amqp://h?a=b"),
        *("amqps://h?verify=perhaps", "amqp://[::1"),
    ],
)
def test_what_is_no_uri_is_refused(uri: str) -> None:
    with pytest.raises(BadRequest, match="bad URI"):
        Endpoint.parse(uri)


def test_options_of_tls_become_parameters_of_the_uri() -> None:
    uri = with_tls_options("amqps://h/", "/some file.pem", insecure=True)
    found = Endpoint.parse(uri)
    assert (found.ca_file, found.verify) == ("/some file.pem", False)
    assert with_tls_options("amqp://h/", None, insecure=False) == "amqp://h/"
    with pytest.raises(BadRequest, match="amqps"):
        with_tls_options("amqp://h/", None, insecure=True)


def test_certificates_that_cannot_be_read_are_named() -> None:
    endpoint = Endpoint.parse("amqps://h/?cacertfile=/nowhere/ca.pem")
    with pytest.raises(BadRequest, match=r"/nowhere/ca\.pem"):
        endpoint.tls_context()
