"""Partner of spark_bridge/logs/http_endpoint.py."""

from __future__ import annotations

import pickle

import pytest

from routelog.spark_bridge.logs.errors import BadOption
from routelog.spark_bridge.logs.http_endpoint import parse_endpoint


def test_a_url_says_where_and_who() -> None:
    found = parse_endpoint("http://anna:p%40ss@broker:1234/", {}, 5.0, 3)
    assert (found.host, found.port, found.is_tls) == ("broker", 1234, False)
    assert (found.user, found.password) == ("anna", "p@ss")
    assert str(found) == "http://broker:1234"
    assert parse_endpoint("https://a:b@[::1]", {}, 5.0, 3).port == 15672


def test_a_copy_has_no_password() -> None:
    there = parse_endpoint("http://anna:secret@broker", {}, 5.0, 3)
    assert b"secret" not in pickle.dumps(there)
    assert pickle.loads(pickle.dumps(there)).user == "anna"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("broker:15672", "expected http://"),
        ("amqp://a:b@broker", "expected http://"),
        ("http://", "expected http://"),
        ("http://a:b@broker:x", "expected http://"),
        ("http://a:b@broker:99999", "expected http://"),
        ("http://a:b@broker/api", "nothing behind the port"),
        ("http://a:b@broker?x=1", "nothing behind the port"),
        ("http://broker", "no user and password"),
        ("http://anna@broker", "no user and password"),
    ],
)
def test_a_url_that_is_none_is_refused(url: str, reason: str) -> None:
    with pytest.raises(BadOption, match=reason) as caught:
        parse_endpoint(url, {}, 5.0, 3)
    assert caught.value.option == "url"
    assert "a:b" not in str(caught.value)


def test_options_of_tls_need_it() -> None:
    with pytest.raises(BadOption, match="option tlsAuthorities: the url is not https"):
        parse_endpoint("http://a:b@broker", {"tlsAuthorities": "x"}, 5.0, 3)
    with pytest.raises(BadOption, match="option tlsKey: there is no tlsCertificate"):
        parse_endpoint("https://a:b@broker", {"tlsKey": "x"}, 5.0, 3)
    with pytest.raises(BadOption, match="option tlsCertificate: /nowhere"):
        parse_endpoint("https://a:b@broker", {"tlsCertificate": "/nowhere"}, 5.0, 3).connection()
