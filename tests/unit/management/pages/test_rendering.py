"""How values are written on a page."""

from __future__ import annotations

import pytest

from routelog.management.pages.rendering import (
    Rendering,
    as_json,
    as_moment,
    as_number,
    as_octets,
    as_part,
)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "–"),
        (0, "0 bytes"),
        (1_023, "1,023 bytes"),
        (1_024, "1.0 KiB"),
        (1_536 * 1_024, "1.5 MiB"),
        (2**40, "1.0 TiB"),
        (2**60, "1,048,576.0 TiB"),
    ],
)
def test_a_size_has_its_largest_unit(size: float | None, text: str) -> None:
    assert as_octets(size) == text


def test_numbers_times_names_and_values() -> None:
    assert (as_number(None), as_number(1_234_567)) == ("–", "1,234,567")
    assert as_moment(0) == "1970-01-01 00:00:00 UTC"
    assert as_moment(1e30) == "1e+30 s after 1970"
    assert as_part("a/b ?é") == "a%2Fb%20%3F%C3%A9"
    assert as_json({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}'


async def test_values_are_escaped() -> None:
    """Whatever a client calls its queue, it is no markup."""
    environment = Rendering()._environment
    template = environment.from_string('<a title="{{ name }}">{{ name }}</a>')
    assert template.render(name='"><script>') == (
        '<a title="&#34;&gt;&lt;script&gt;">&#34;&gt;&lt;script&gt;</a>'
    )
