"""Delayed messages by the million: `python -m routelog.benchmarks.studies.delayed`.

Most messages are delayed by up to a year; some, scattered among them, become due within a window, after a kill
of the broker. The study counts missing and early messages, and how late the others come after the time at which
the broker says they are due.
"""

import json
import random
import signal
import time
from pathlib import Path
from typing import Annotated, Any
from urllib.request import Request, urlopen

import typer
from pamqp import commands, frame
from pamqp.body import ContentBody
from rich.console import Console
from rich.table import Table

from routelog.benchmarks.perf.outcome import refusals
from routelog.benchmarks.studies.restart import RestartedBroker
from routelog.benchmarks.traffic.confirms import ConfirmTally
from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.folder import scratch
from routelog.benchmarks.traffic.frames import CHANNEL, body_frames, header_frame
from routelog.benchmarks.traffic.unexpected import EXIT_WRONG

EXCHANGE, QUEUE = "delayed", "delayed"
YEAR = 365 * 86_400.0  # s
IN_FLIGHT = 400  # unconfirmed: little time between a producer's wish and the broker's clock
FAR = "far"  # routing key of messages that become due after the window; others have their number
MARK = b"due"  # in front of the bodies of messages that become due in the window

tool = typer.Typer(no_args_is_help=False, pretty_exceptions_enable=False)


@tool.command()
def main(
    messages: Annotated[int, typer.Option(min=1, help="Delayed by up to a year.")] = 1_000_000,
    rate: Annotated[int, typer.Option(min=1, help="Due a second in the window.")] = 1_000,
    window: Annotated[float, typer.Option(min=1, help="Seconds.")] = 60.0,
    lead: Annotated[
        float, typer.Option(min=1, help="Seconds from the start of publishing to the window.")
    ] = 240.0,
    body_bytes: Annotated[int, typer.Option(min=16)] = 200,
    folder: Annotated[Path | None, typer.Option(help="Where the data lies.")] = None,
) -> None:
    """Publish, kill the broker, start it again, and look at what comes when."""
    with refusals(), scratch(folder, "delayed-") as data:
        broker = RestartedBroker(data / "data", management=True)
        broker.start()
        try:
            rows, failed = _run(
                broker, data / "data", messages, int(rate * window), window, lead, body_bytes
            )
        finally:
            broker.end(signal.SIGKILL)
    table = Table("", "", title=f"{messages:,} messages delayed by up to a year")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if failed:
        raise typer.Exit(EXIT_WRONG)


def _run(
    broker: RestartedBroker,
    data: Path,
    messages: int,
    due_count: int,
    window: float,
    lead: float,
    body_bytes: int,
) -> tuple[list[tuple[str, str]], bool]:
    begin = time.time() + lead
    wanted = [begin + random.random() * window for _ in range(due_count)]
    started = time.monotonic()
    _publish(broker.url, messages, wanted, body_bytes)
    published = time.monotonic() - started
    memory = broker.memory_bytes()
    broker.end(signal.SIGKILL)
    ready = broker.start()
    due = _due_times(data, due_count)
    if time.time() > begin:
        raise SystemExit("the window began before the broker was back: a longer --lead is needed")
    came, extra = _consume(broker.url, wanted, begin + window + 30)
    time.sleep(1.0)  # the last messages are held until their copies are durable
    held = _asked(data, f"exchanges/%2F/{EXCHANGE}")["messages_delayed"]
    late = sorted(at - due.get(number, wanted[number]) for number, at in came.items())
    early = sum(at < wanted[number] for number, at in came.items()) + sum(each < 0 for each in late)
    lost = due_count - len(came) + messages - held
    rows = [
        ("published in", f"{published:.1f} s, {(messages + due_count) / published:,.0f}/s"),
        ("memory before the kill", f"{memory / 1e6:.0f} MB"),
        ("ready after the kill", f"{ready:.2f} s"),
        ("memory after the window", f"{broker.memory_bytes() / 1e6:.0f} MB"),
        ("due in the window", f"{due_count:,} in {window:.0f} s"),
        ("lost, early, twice", f"{lost}, {early}, {extra}"),
        (
            "lateness p50, p99, most",
            ", ".join(f"{_share(late, s) * 1e3:.1f} ms" for s in (0.5, 0.99, 1)),
        ),
    ]
    return rows, bool(lost or early)


def _share(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def _publish(url: str, messages: int, wanted: list[float], body_bytes: int) -> None:
    connection = Connection(url)
    arguments: Any = {"x-delayed-type": "fanout"}
    exchange = commands.Exchange.Declare(
        exchange=EXCHANGE, exchange_type="x-delayed-message", durable=True, arguments=arguments
    )
    connection.call(exchange, commands.Exchange.DeclareOk)
    connection.call(commands.Queue.Declare(queue=QUEUE, durable=True), commands.Queue.DeclareOk)
    bind = commands.Queue.Bind(queue=QUEUE, exchange=EXCHANGE, routing_key="")
    connection.call(bind, commands.Queue.BindOk)
    connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    order = [-1] * messages + list(range(len(wanted)))
    random.shuffle(order)
    far_body = body_frames(b"far".ljust(body_bytes, b"-"))
    tally = ConfirmTally()
    published = 0
    for number in order:
        if number < 0:
            delay = 3_600 + random.random() * YEAR
            key, content = FAR, far_body
        else:
            key = str(number)
            delay = wanted[number] - time.time()
            content = body_frames((MARK + b"%d " % number).ljust(body_bytes, b"-"))
        # The broker rounds up: no message may come early.
        milliseconds = -int(-delay * 1_000 // 1)
        properties = commands.Basic.Properties(headers={"x-delay": milliseconds}, delivery_mode=2)
        publish = frame.marshal(commands.Basic.Publish(exchange=EXCHANGE, routing_key=key), CHANNEL)
        connection.send(publish + header_frame(properties, body_bytes) + content)
        published += 1
        while published - tally.confirmed >= IN_FLIGHT:
            tally.feed(connection.receive())
    while tally.confirmed < published:
        tally.feed(connection.receive())
    connection.close()


def _consume(url: str, wanted: list[float], end: float) -> tuple[dict[int, float], int]:
    connection = Connection(url)
    consume = commands.Basic.Consume(queue=QUEUE, consumer_tag="c", no_ack=True)
    connection.call(consume, commands.Basic.ConsumeOk)
    connection.socket.settimeout(0.2)
    came: dict[int, float] = {}
    extra = 0
    data = b""
    while time.time() < end and len(came) < len(wanted):
        try:
            data += connection.receive()
        except TimeoutError:
            continue
        now = time.time()
        at = 0
        while len(data) - at >= 8:
            size = 8 + int.from_bytes(data[at + 3 : at + 7], "big")
            if len(data) - at < size:
                break
            _, _, value = frame.unmarshal(data[at : at + size])
            at += size
            if isinstance(value, ContentBody):
                content = value.value or b""
                if not content.startswith(MARK):
                    raise SystemExit("a message came that is due in an hour or later")
                number = int(content[len(MARK) :].split()[0])
                extra += number in came
                came.setdefault(number, now)
        data = data[at:]
    connection.socket.close()
    return came, extra


def _due_times(data: Path, count: int) -> dict[int, float]:
    # When the messages of the window are due, as the broker says it in milliseconds: a little before.
    due: dict[int, float] = {}
    page: dict[str, Any] = {"next": None}
    while len(due) < count:
        following = f"&from={page['next']}" if page["next"] else ""
        page = _asked(data, f"exchanges/%2F/{EXCHANGE}/delayed?count=500{following}")
        for row in page["items"]:
            if row["routing_key"] != FAR:
                due[int(row["routing_key"])] = row["due_at"] / 1_000
        if page["next"] is None:
            break
    return due


def _asked(data: Path, path: str) -> dict[str, Any]:
    door = json.loads((data / "management.json").read_text())
    request = Request(f"{door['url']}/api/{path}")
    request.add_header("Authorization", f"Bearer {door['token']}")
    with urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


if __name__ == "__main__":
    tool()
