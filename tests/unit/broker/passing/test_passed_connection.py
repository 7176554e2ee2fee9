"""What clients of HTTP are told by a node without a leader."""

import msgspec
import pytest

from routelog.broker.passing.passed_connection import HttpRefusal


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_http_client_gets_503_with_the_reason(method: str) -> None:
    refusal = HttpRefusal("nobody leads")
    assert refusal.take(f"{method} /api/overview HTTP/1.1\r\n".encode()) == b""
    assert not refusal.is_over
    head, _, body = refusal.take(b"Host: a\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    if method == "GET":
        assert msgspec.json.decode(body) == {"error": "no_leader", "reason": "nobody leads"}
    else:
        assert body == b""
    assert refusal.is_over


def test_a_head_without_an_end_is_not_kept() -> None:
    refusal = HttpRefusal("nobody leads")
    assert refusal.take(b"x" * 70_000) == b""
    assert refusal.is_over
