"""From values to HTML."""

from __future__ import annotations

from unit.management.page_browser import rendering

from routelog.management.pages.rendering import as_json, as_part


def test_names_and_values() -> None:
    assert as_part("a/b ?é") == "a%2Fb%20%3F%C3%A9"
    assert as_json({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}'


async def test_values_are_escaped() -> None:
    """Whatever a client calls its queue, it is no markup."""
    environment = rendering()._environment
    template = environment.from_string('<a title="{{ name }}">{{ name }}</a>')
    assert template.render(name='"><script>') == (
        '<a title="&#34;&gt;&lt;script&gt;">&#34;&gt;&lt;script&gt;</a>'
    )


async def test_times_are_elements_that_the_browser_writes_in_its_own_zone() -> None:
    environment = rendering()._environment
    template = environment.from_string("{{ 60 | moment }} {{ 60 | clock }} {{ 60 | ago }}")
    exact = "1970-01-01 00:01:00 UTC"
    assert template.render(now=8_100) == (
        f'<time datetime="1970-01-01T00:01:00Z">{exact}</time> '
        '<time datetime="1970-01-01T00:01:00Z" data-clock>00:01:00 UTC</time> '
        f'<time datetime="1970-01-01T00:01:00Z" data-ago title="{exact}">2 h 14 min ago</time>'
    )
    assert environment.from_string("{{ 1e30 | ago }}").render(now=0) == "1e+30 s after 1970"
