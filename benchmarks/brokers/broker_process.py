"""Brokers started for a measurement, on free ports and with folders of their own."""

import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.unexpected import EXIT_UNUSABLE, RunFailed

_COMMAND = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
    "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
)

_START_SECONDS = 180  # on a busy machine; a quiet one takes 2 to 10
_STOP_SECONDS = 30
_READY = "routelog ready "
NOTHING: Mapping[str, str] = MappingProxyType({})
# The distribution's own wrappers in /usr/sbin change the user; these do not.
_RABBITMQ_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
RABBITMQ_CONTROL = _RABBITMQ_SCRIPT.with_name("rabbitmqctl")
# Fields of /proc/PID/stat after the name, from the state on
_SESSION, _USER, _SYSTEM, _PAGES = 3, 11, 12, 21


@dataclass(frozen=True)
class Certificate:
    """A certificate for hosts, signed by itself, and its key; both PEM."""

    file: Path
    key: Path

    def uri(self, port: int) -> str:
        """The URI of a broker on 127.0.0.1 that shows it; with RabbitMQ's parameters."""
        trusted = quote(str(self.file), safe="")
        return f"amqps://guest:guest@127.0.0.1:{port}/?cacertfile={trusted}"


def make_certificate(folder: Path) -> Certificate | None:
    """A new certificate for 127.0.0.1; None where there is no `openssl` to make one."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    command = [*_COMMAND.split(), "-out", str(made.file), "-keyout", str(made.key)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return made


class BrokerUnavailable(RunFailed):
    """The broker cannot be started here; the message says what to do."""

    exit_code = EXIT_UNUSABLE


@dataclass(frozen=True)
class Broker:
    """A broker to measure.

    Args:
        tls_uri: the same broker with TLS; None when it has none.
        session: of its processes; None when somebody else started it.
        http_port: of its HTTP API; None when it has none.
        another: starts one more of its kind; None when it was not started here.
    """

    uri: str
    tls_uri: str | None = None
    session: int | None = None
    http_port: int | None = None
    another: "Callable[[], contextlib.AbstractContextManager[Broker]] | None" = None

    def cpu_seconds(self) -> float:
        """Processor time of the broker's processes since they started; 0: unknown."""
        return 0.0 if self.session is None else processor_seconds(self.session)

    def resident_bytes(self) -> int:
        """Resident memory of the broker's processes; 0: unknown."""
        return 0 if self.session is None else resident_bytes(self.session)


@contextlib.contextmanager
def routelog(
    folder: Path,
    *,
    with_http: bool = False,
    environment: Mapping[str, str] = NOTHING,
    program: Sequence[str] = ("routelog",),
) -> Iterator[Broker]:
    """A RouteLog of this source tree; the HTTP API costs memory, and is optional.

    Args:
        program: module that is run, with its arguments before `serve`.
        environment: added to that of this process.
    """
    command = [sys.executable, "-m", *program, "serve", "--host", "127.0.0.1", "--port", "0"]
    doors = {"ROUTELOG_MANAGEMENT": str(with_http).lower(), "ROUTELOG_PROMETHEUS": "false"}
    environment = {**os.environ, **environment, **doors}
    http_port = free_port() if with_http else None
    if with_http:
        environment["ROUTELOG_MANAGEMENT_PORT"] = str(http_port)
        environment["ROUTELOG_MANAGEMENT_TLS_PORT"] = "0"
    certificate, tls_port = make_certificate(folder), free_port()
    if certificate is not None:
        environment["ROUTELOG_TLS_PORT"] = str(tls_port)
        environment["ROUTELOG_TLS_CERTIFICATE"] = str(certificate.file)
        environment["ROUTELOG_TLS_KEY"] = str(certificate.key)
    log = (folder / "routelog.log").open("wb")
    with (
        log,
        running(
            [*command, "--data-dir", str(folder / "routelog")],
            environment,
            log.fileno(),
            subprocess.PIPE,
        ) as process,
    ):
        uri = ready_url(process, folder / "routelog.log")
        tls_uri = None if certificate is None else certificate.uri(tls_port)
        another = functools.partial(_another, routelog, folder)
        yield Broker(uri, tls_uri, session=process.pid, http_port=http_port, another=another)


def ready_url(process: subprocess.Popen[bytes], log: Path) -> str:
    """Read what a RouteLog prints up to its ready line, and keep draining it afterwards.

    Raises:
        BrokerUnavailable: there is no such line.
    """
    urls: list[str] = []
    ready = threading.Event()

    def drain() -> None:
        for line in process.stdout or ():
            if line.startswith(_READY.encode()):
                urls.append(line.decode()[len(_READY) :].split()[0])
                ready.set()
        ready.set()

    threading.Thread(target=drain, daemon=True).start()
    if not ready.wait(_START_SECONDS) or not urls:
        raise BrokerUnavailable(f"routelog did not become ready:\n{_tail(log)}")
    return urls[0]


@contextlib.contextmanager
def rabbitmq(folder: Path) -> Iterator[Broker]:
    """A RabbitMQ of the installed package, without plugins."""
    home = folder / "rabbitmq"
    home.mkdir()
    with port_mapper() as mapper, rabbitmq_node(home, "bench", mapper) as (broker, _):
        yield replace(broker, another=functools.partial(_another, rabbitmq, folder))


@contextlib.contextmanager
def rabbitmq_node(
    home: Path, name: str, mapper_port: int
) -> Iterator[tuple[Broker, Mapping[str, str]]]:
    """A node of RabbitMQ with its files in a folder, and the environment of its commands.

    Args:
        name: of the node, beside others of this process.
        mapper_port: see `port_mapper`.
    """
    program = (
        str(_RABBITMQ_SCRIPT) if _RABBITMQ_SCRIPT.exists() else shutil.which("rabbitmq-server")
    )
    if program is None:
        raise BrokerUnavailable(
            "rabbitmq-server is not installed; try: apt install rabbitmq-server"
        )
    port = free_port()
    environment = _rabbitmq_environment(home, name, port, mapper_port)
    certificate, tls_port = make_certificate(home), free_port()
    if certificate is not None:
        (home / "rabbitmq.conf").write_text(
            f"listeners.ssl.1 = 127.0.0.1:{tls_port}\n"
            f"ssl_options.certfile = {certificate.file}\n"
            f"ssl_options.keyfile = {certificate.key}\n"
        )
    log_path = home / "output.log"
    url = f"amqp://guest:guest@127.0.0.1:{port}/"
    with log_path.open("wb") as log, running([program], environment, log.fileno()) as process:
        _wait_until_it_answers(url, process, log_path)
        tls_uri = None if certificate is None else certificate.uri(tls_port)
        yield Broker(url, tls_uri, session=process.pid), environment


@contextlib.contextmanager
def port_mapper() -> Iterator[int]:
    """A port for an Erlang port mapper of our own: RabbitMQ starts it, and leaves it behind."""
    port = free_port()
    try:
        yield port
    finally:
        program = shutil.which("epmd")
        if program:
            command = [program, "-port", str(port), "-kill"]
            environment = {"PATH": os.environ.get("PATH", "")}
            subprocess.run(command, env=environment, capture_output=True, check=False, timeout=10)


@contextlib.contextmanager
def _another(
    start: Callable[[Path], contextlib.AbstractContextManager[Broker]], folder: Path
) -> Iterator[Broker]:
    with tempfile.TemporaryDirectory(dir=folder) as own, start(Path(own)) as broker:
        yield broker


def _rabbitmq_environment(home: Path, name: str, port: int, mapper_port: int) -> dict[str, str]:
    (home / "enabled_plugins").write_text("[].\n")
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "ERL_CRASH_DUMP": str(home / "erl_crash.dump"),
        "ERL_EPMD_PORT": str(mapper_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"{name}{os.getpid()}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_PID_FILE": str(home / "pid"),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
    }


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            Connection(url).close()
            return
        except (OSError, RunFailed):
            time.sleep(0.2)
    raise BrokerUnavailable(f"rabbitmq-server did not become ready:\n{_tail(log)}")


@contextlib.contextmanager
def running(
    command: list[str], environment: Mapping[str, str], log: int, output: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, which is stopped as a group.

    Args:
        log, output: where its errors go, and what it prints; None: to the log, too.
    """
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log if output is None else output,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port(wanted: int = 0) -> int:
    """A port of 127.0.0.1 that nobody listens on; 0: any.

    Raises:
        OSError: somebody listens on the wanted one.
    """
    with socket.create_server(("127.0.0.1", wanted)) as probe:
        return int(probe.getsockname()[1])


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


def processor_seconds(session: int) -> float:
    """Processor time since they started, of those that run."""
    ticks = sum(int(f[_USER]) + int(f[_SYSTEM]) for f in _processes(session))
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(session: int) -> int:
    """Resident memory."""
    return sum(int(f[_PAGES]) for f in _processes(session)) * os.sysconf("SC_PAGE_SIZE")


def _processes(session: int) -> Iterator[list[str]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # a process that ends meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[_SESSION]) == session:
                yield fields
