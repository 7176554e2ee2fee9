"""Trace contexts as they stand in property lists."""

import pytest
from opentelemetry.trace import get_current_span
from pamqp.commands import Basic

from routelog.amqp_front.publishing.spans import sampled_context

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01"


def properties(**headers: object) -> bytes:
    return Basic.Properties(headers=headers, content_type="text/plain").marshal()


def test_a_sampled_context_is_the_parent() -> None:
    for raw in (
        properties(traceparent=SAMPLED),
        properties(a=1, traceparent=SAMPLED, z="x"),
    ):
        found = get_current_span(sampled_context(raw)).get_span_context()
        assert (f"{found.trace_id:032x}", f"{found.span_id:016x}") == (TRACE, PARENT)
        assert found.is_remote


@pytest.mark.parametrize(
    "text",
    [
        "",
        SAMPLED[:-1],
        SAMPLED[:-1] + "0",
        SAMPLED.upper(),
        f"01-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
    ],
)
def test_what_is_no_sampled_context_has_no_span(text: str) -> None:
    assert sampled_context(properties(traceparent=text)) is None


def test_without_the_header_or_any_there_is_no_span() -> None:
    assert sampled_context(properties(tracestate=SAMPLED)) is None
    assert sampled_context(b"\0\0") is None
    assert sampled_context(properties(traceparent=7)) is None


def test_every_cut_of_a_property_list_is_read_without_a_fault() -> None:
    raw = properties(traceparent=SAMPLED)
    for end in range(len(raw)):
        assert sampled_context(raw[:end]) is None
