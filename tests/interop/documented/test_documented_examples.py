"""Programs and fragments that pages of docs/ show, run as they stand there against a broker."""

from __future__ import annotations

import re
from pathlib import Path

import pika
import pytest
from conftest import BrokerFactory

pytestmark = pytest.mark.interop

DOCS = Path(__file__).parents[3] / "docs"
ADDRESS = "amqp://guest:guest@127.0.0.1:5672/%2F"


def blocks(page: str, language: str) -> list[str]:
    """What a page shows in a language; without one, what its programs print."""
    text = (DOCS / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_first_five_minutes_print_what_the_page_shows(
    fresh_broker: BrokerFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    broker, page = fresh_broker(), "getting-started.md"
    shown = (DOCS / page).read_text()
    for program in blocks(page, "python"):
        assert ADDRESS in program
        exec(compile(program.replace(ADDRESS, f"{broker.url}%2F"), page, "exec"), {})
        printed = capsys.readouterr().out
        assert printed
        assert f"```\n{printed}```" in shown


def test_the_example_of_another_client_prints_what_it_received(
    fresh_broker: BrokerFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    broker, page = fresh_broker(), "clients.md"
    (program,) = blocks(page, "python")
    exec(compile(program.replace(ADDRESS, f"{broker.url}%2F"), page, "exec"), {})
    assert capsys.readouterr().out == "b'hi'\n"


@pytest.mark.parametrize(
    "page",
    [
        "operating/compression.md",
        "messaging/delayed.md",
        "messaging/durability.md",
        "messaging/exchanges.md",
        "messaging/partitions.md",
        "messaging/queues.md",
        "messaging/streams.md",
    ],
)
def test_fragments_of_a_page_run_on_a_channel(page: str, fresh_broker: BrokerFactory) -> None:
    broker = fresh_broker()
    for fragment in blocks(page, "python"):
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        names = {"channel": channel, "pika": pika, "on_message": lambda *_: None}
        exec(compile(fragment, page, "exec"), names)
        channel.queue_declare("")  # nothing before it was refused
        connection.close()
