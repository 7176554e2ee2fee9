"""A page that says what is not so fails, at its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.documented.test_pages import read

pytestmark = [pytest.mark.interop, pytest.mark.differs_from_rabbitmq("its own commands")]

CONNECT = "import pika\n\nchannel = pika.BlockingConnection().channel()\n"
REFUSED = f'{CONNECT}channel.basic_publish("no-such-exchange", "", b"")\n'


@pytest.mark.parametrize(
    ("language", "text", "told"),
    [
        ("python", "channel.queue_declare('a')\n", "name 'channel' is not defined"),
        ("python", REFUSED, "no exchange 'no-such-exchange'"),
        ("sh", "systemctl stop routelog\nrouteLog status\n", "exit code 127"),
        ("toml", "heartbeat_second = 1\n", "did you mean heartbeat_seconds?"),
        ("sh", "echo a\n```\n\n```\nb\n", "it prints\na"),
    ],
)
def test_a_snippet_that_does_not_do_what_the_page_says_is_named(
    language: str, text: str, told: str, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```{language}\n{text}```\n")
    with pytest.raises(pytest.fail.Exception) as failed:
        read(str(page))
    assert f"{page}, line 4" in str(failed.value)
    assert told in str(failed.value)
