"""What browsers on the page of queues cost a publisher, in a broker with very many queues.

    python -m routelog.benchmarks.studies.many_queues

A publisher sends one message at a time, at a fixed rate, and waits for its confirm: without browsers, while
they show the first page of the queues again and again, and while they show those with most messages. Browsers
run with a low priority: an operator's are on another machine.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Annotated
from urllib.request import Request, urlopen

import typer
from playwright.async_api import Browser, Page, async_playwright
from rich.console import Console
from rich.table import Table

from routelog.benchmarks.perf.outcome import refusals
from routelog.benchmarks.studies.restart import RestartedBroker
from routelog.benchmarks.traffic.folder import scratch
from routelog.benchmarks.traffic.journal_load import journal_load

CHROMIUM = "/usr/bin/chromium"  # Debian's
NICENESS = 19  # of browsers
IMPORT_SECONDS_MAX = 600.0
# What browsers show. For the order of messages every queue is looked at.
PAGES = {"by name": "/queues", "by messages": "/queues?sort=messages&sort_reverse=true"}
ALONE = "none"
# Milliseconds from the request to the last byte of the answer.
ANSWERED = """() => {
  const [page] = performance.getEntriesByType("navigation");
  return page.responseEnd - page.requestStart;
}"""

_FORK = multiprocessing.get_context("fork")
tool = typer.Typer(no_args_is_help=False, pretty_exceptions_enable=False)


@tool.command()
def main(
    queues: Annotated[int, typer.Option(min=1)] = 100_000,
    browsers: Annotated[int, typer.Option(min=1)] = 3,
    rate: Annotated[int, typer.Option(min=1, help="Messages a second.")] = 200,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of a turn.")] = 20.0,
    turns: Annotated[int, typer.Option(min=1, help="Without browsers, and with each page.")] = 3,
    refresh: Annotated[float, typer.Option(min=0.1, help="Seconds between two pages.")] = 5.0,
    only: Annotated[
        str, typer.Option(help="Pages whose names contain this: " + ", ".join(PAGES))
    ] = "",
    durability: Annotated[str, typer.Option(help="Of the publisher's queue.")] = "memory",
    folder: Annotated[Path | None, typer.Option(help="Where the data lies.")] = None,
) -> None:
    """Declare the queues, and publish without browsers and with them, in turns."""
    columns = ("publish p50 ms", "p99 ms", "loop p99 ms", "page p50 ms", "longest ms")
    table = Table("page", *columns)
    pages = [page for page in PAGES if only in page]
    p99: dict[str, list[float]] = {page: [] for page in (ALONE, *pages)}
    answers: dict[str, list[float]] = {page: [] for page in pages}
    with refusals(), scratch(folder, "many-queues-") as data:
        broker = RestartedBroker(data / "data", management=True)
        broker.start()
        try:
            door = _declare(data / "data", queues)
            for page in (ALONE, *pages) * turns:
                with _browsing(door, page, browsers, refresh) as looked:
                    waits, held = _publish(broker, rate, seconds, durability)
                p99[page].append(_share(waits, 0.99))
                times = (_share(waits, 0.5), _share(waits, 0.99), _share(held, 0.99))
                row = [page, *(f"{1e3 * each:.2f}" for each in times)]
                if page != ALONE:
                    answers[page] += looked
                    row += [f"{each:.0f}" for each in (statistics.median(looked), max(looked))]
                table.add_row(*row)
        finally:
            broker.end(signal.SIGKILL)
    table.title = (
        f"{queues:,} queues, {rate} messages a second of level {durability}, {browsers} browsers"
    )
    Console().print(table)
    alone = statistics.median(p99[ALONE])
    for page, looked in answers.items():
        change = 100 * (statistics.median(p99[page]) / alone - 1)
        longest = max(looked)
        print(f"{page}: p99 {change:+.0f} % (goal: +20), longest page {longest:.0f} ms (goal: 300)")


def _declare(data: Path, count: int) -> str:
    """Import definitions of the queues; returns the address of the web page."""
    door = json.loads((data / "management.json").read_text())
    names = [f"queue.{number:06d}" for number in range(count)]
    properties = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    document = json.dumps({"queues": [{"name": name, **properties} for name in names]})
    request = Request(f"{door['url']}/api/definitions", document.encode(), method="POST")
    request.add_header("Authorization", f"Bearer {door['token']}")
    request.add_header("Content-Type", "application/json")
    with urlopen(request, timeout=IMPORT_SECONDS_MAX):
        return str(door["url"])


# -- the publisher


def _publish(
    broker: RestartedBroker, rate: int, seconds: float, durability: str
) -> tuple[list[float], list[float]]:
    """Seconds from each publish to its confirm, and how long the broker's loop ran meanwhile, both sorted."""
    running = Path(f"/proc/{broker.process_id}/task/{broker.process_id}/schedstat")
    waits: list[float] = []
    held: list[float] = []
    with journal_load(broker.url, 1, durability=durability) as load:
        load.confirm_seconds()
        began = time.monotonic()
        for number in range(int(rate * seconds)):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            before = _running_seconds(running)
            waits.append(load.confirm_seconds())
            held.append(_running_seconds(running) - before)
    return sorted(waits), sorted(held)


def _running_seconds(counts: Path) -> float:
    return int(counts.read_text().split()[0]) / 1e9  # the first number: nanoseconds on a processor


def _share(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


# -- browsers


@contextmanager
def _browsing(door: str, page: str, count: int, refresh: float) -> Iterator[list[float]]:
    """Browsers that show one of the pages; gives milliseconds of each answer, filled in at the end."""
    answers: list[float] = []
    if page == ALONE:
        yield answers
        return
    ours, theirs = _FORK.Pipe()
    process = _FORK.Process(target=_browse, args=(door, PAGES[page], count, refresh, theirs))
    process.start()
    try:
        ours.recv()  # all have signed in
        yield answers
        ours.send(None)
        answers += ours.recv()
    finally:
        if not answers:
            process.kill()
        process.join()


def _browse(door: str, path: str, count: int, refresh: float, pipe: Pipe) -> None:
    os.nice(NICENESS)
    asyncio.run(_look_together(door, path, count, refresh, pipe))


async def _look_together(door: str, path: str, count: int, refresh: float, pipe: Pipe) -> None:
    async with async_playwright() as playwright:
        chromium = playwright.chromium
        opened = [await chromium.launch(executable_path=CHROMIUM) for _ in range(count)]
        pages = [await _signed_in(browser, door) for browser in opened]
        pipe.send(None)
        end = asyncio.ensure_future(asyncio.to_thread(pipe.recv))
        answers: list[float] = []
        async with asyncio.TaskGroup() as looking:
            for number, page in enumerate(pages):
                first = refresh * number / count  # they do not ask at the same time
                looking.create_task(_look(page, door + path, first, refresh, end, answers))
        for browser in opened:
            await browser.close()
    pipe.send(answers)


async def _signed_in(browser: Browser, door: str) -> Page:
    page = await browser.new_page()
    await page.goto(door)
    await page.fill("#user", "guest")
    await page.fill("#password", "guest")
    await page.click("main button")
    await page.wait_for_load_state()
    return page


async def _look(
    page: Page,
    address: str,
    first: float,
    refresh: float,
    end: "asyncio.Future[object]",
    answers: list[float],
) -> None:
    await asyncio.wait([end], timeout=first)
    while not end.done():
        await page.goto(address)
        answers.append(await page.evaluate(ANSWERED))
        await asyncio.wait([end], timeout=refresh)


if __name__ == "__main__":
    tool()
