"""Fixtures for tests that talk to a whole broker.

`ROUTELOG_TEST_URL=amqp://...` runs them against a broker that is already there. That is how the
tests themselves are checked: whatever they claim of AMQP has to be true of RabbitMQ too.
`ROUTELOG_TEST_BROKER` names another one of `BROKER_KINDS`, whose clients have to find the same.
"""

from __future__ import annotations

import gc
import os
import signal
import uuid
from collections.abc import Callable, Generator, Iterator
from itertools import product
from pathlib import Path

import pytest
from cluster.fronts.broker_kinds import BROKER_KINDS, ONE_PROCESS
from hypothesis import settings
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from support.broker_process import BrokerProcess, ForeignBroker
from support.pika_client import Clients
from support.sampling import examples

from routelog import log_backend  # noqa: F401 -- with ROUTELOG_PURE=1, hot modules of all packages are their sources from here on

FOREIGN_URL = os.environ.get("ROUTELOG_TEST_URL", "")
KIND = os.environ.get("ROUTELOG_TEST_BROKER", ONE_PROCESS)

# Times `faulthandler_timeout`, for a test with its fixtures; 0 is no limit for either.
HANGS_AFTER = 10
HANGS_AGAIN_SECONDS = 60  # what is done behind a failure may hang, too

# The same examples in each run, however long one takes; `--hypothesis-profile default` goes on looking.
settings.register_profile("same", settings.get_profile("ci"), max_examples=examples(100))
settings.load_profile("same")

OLD_OBJECTS_MAX = 100_000  # a tenth of what is loaded for all tests

FIGURES = "figures"  # the property of a test's report that is printed at the end

BrokerFactory = Callable[..., BrokerProcess]


def pytest_configure(config: pytest.Config) -> None:
    """Announce the markers that name where RabbitMQ 3.10, or a front, deliberately answers otherwise."""
    config.addinivalue_line(
        "markers", "differs_from_rabbitmq(reason): our answer; skipped against a foreign broker"
    )
    config.addinivalue_line(
        "markers", "differs_at_fronts(reason): of one process; skipped against the other kinds"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is our own decision when a foreign broker is under test, and what a front does otherwise."""
    skipped = {"differs_from_rabbitmq": "RabbitMQ 3.10"} if FOREIGN_URL else {}
    if KIND != ONE_PROCESS:
        skipped["differs_at_fronts"] = KIND
    for item, (name, broker) in product(items, skipped.items()):
        marker = item.get_closest_marker(name)
        if marker is not None:
            item.add_marker(pytest.mark.skip(reason=f"{broker}: {marker.args[0]}"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: what is loaded stays, and looks at it are a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that hangs, and go on with the others.

    pytest's own watch only prints where it hangs, and ends with the first failure of a test: it does not
    see a fixture that hangs behind one.
    """
    seconds = HANGS_AFTER * float(item.config.getini("faulthandler_timeout"))

    def hung(*_: object) -> None:
        pytest.fail(f"{item.nodeid} hangs")

    signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, seconds, HANGS_AGAIN_SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have counted."""
    reports = [
        each for outcome in ("passed", "failed") for each in terminalreporter.getreports(outcome)
    ]
    lines = [
        str(line)
        for report in reports
        if report.when == "call"
        for name, line in report.user_properties
        if name == FIGURES
    ]
    if lines:
        terminalreporter.section(FIGURES)
        terminalreporter.write_line("\n".join(lines))


def pytest_unconfigure() -> None:
    """What is exempted from garbage collection is freed at the end: extensions report it as leaks otherwise."""
    gc.unfreeze()


@pytest.fixture(scope="module", autouse=True)
def no_garbage_of_pytest() -> None:
    """Exempt all modules and tests from garbage collection: to look through them is a sixth of a test's time.

    A test that ends the exemption has it begun again for the next module. Only what is not exempt is counted:
    to count all would take longer than most modules.
    """
    if len(gc.get_objects(generation=2)) > OLD_OBJECTS_MAX:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """Brokers and commands in this process hide what they make, from there on: not so the next test."""
    before = os.umask(0o077)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def broker(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[BrokerProcess | ForeignBroker]:
    """One broker for all tests that leave it running."""
    if FOREIGN_URL:
        yield ForeignBroker(FOREIGN_URL)
        return
    with BROKER_KINDS[KIND](tmp_path_factory.mktemp("broker"), {}) as process:
        yield process


@pytest.fixture
def fresh_broker(tmp_path: Path) -> Iterator[BrokerFactory]:
    """A factory of brokers that a test may kill and restart; all are stopped at its end.

    Keyword arguments become environment variables of the process.
    """
    if FOREIGN_URL or KIND != ONE_PROCESS:
        pytest.skip("needs control over the broker process")
    processes: list[BrokerProcess] = []

    def start(**environment: str) -> BrokerProcess:
        process = BrokerProcess(tmp_path / f"data-{len(processes)}", environment)
        processes.append(process)
        return process.start()

    try:
        yield start
    finally:
        for process in processes:
            process.stop()


@pytest.fixture
def clients(broker: BrokerProcess | ForeignBroker) -> Iterator[Clients]:
    """pika connections to the session's broker, closed at the end of the test."""
    opened = Clients(broker.url)
    yield opened
    opened.close()


@pytest.fixture
def connection(clients: Clients) -> BlockingConnection:
    """One pika connection."""
    return clients.connect()


@pytest.fixture
def channel(connection: BlockingConnection) -> BlockingChannel:
    """One pika channel on `connection`."""
    return connection.channel()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name nothing on the broker has yet, that tells which test made it."""
    return f"{request.node.originalname[:24]}.{uuid.uuid4().hex[:8]}"
