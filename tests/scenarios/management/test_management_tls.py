"""The HTTP API over TLS, with certificates of a real authority: clients, commands, renewal."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.broker_process import BrokerProcess
from support.waiting import wait_until
from typer.testing import CliRunner

from routelog.__main__ import command_line

pytestmark = pytest.mark.differs_from_rabbitmq("it has to be configured otherwise")

AUTHORITY = trustme.CA()
FOREIGN = trustme.CA()


def written(file: Path, issued: trustme.LeafCert) -> Path:
    issued.private_key_and_cert_chain_pem.write_to_path(str(file))
    return file


def environment(folder: Path, **more: str) -> dict[str, str]:
    """What switches TLS on, with a certificate of localhost."""
    certificate = written(folder / "server.pem", AUTHORITY.issue_cert("localhost", "127.0.0.1"))
    AUTHORITY.cert_pem.write_to_path(str(folder / "ca.pem"))
    switched_on = {"ROUTELOG_TLS_CERTIFICATE": str(certificate), "ROUTELOG_TLS_PORT": "0"}
    return switched_on | {f"ROUTELOG_{key.upper()}": value for key, value in more.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("https")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(folder / "data", environment(folder)).start()
    yield process
    process.stop()


def https_port(broker: BrokerProcess) -> int:
    found = re.findall(r"listening for HTTPS on \S+:(\d+)", broker.log_text())
    return int(found[-1])


def trusting(authority: trustme.CA = AUTHORITY) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


def ask(broker: BrokerProcess, path: str, context: ssl.SSLContext) -> tuple[int, Any]:
    connection = HTTPSConnection("localhost", https_port(broker), timeout=60, context=context)
    try:
        user = b64encode(b"guest:guest").decode()
        connection.request("GET", f"/api{path}", headers={"Authorization": f"Basic {user}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def run(*arguments: str, given: str = "") -> Any:
    return CliRunner().invoke(command_line, arguments, input=given)


def test_the_api_answers_over_tls_and_says_where_it_listens(broker: BrokerProcess) -> None:
    status, overview = ask(broker, "/overview", trusting())
    assert status == 200
    ports = {each["protocol"]: each["port"] for each in overview["listeners"]}
    assert ports["https"] == https_port(broker)
    assert set(ports) == {"amqp", "amqp/ssl", "http", "https", "http/prometheus"}
    for protocol in ("https", "amqps", "amqp"):
        assert ask(broker, f"/health/checks/protocol-listener/{protocol}", trusting())[0] == 200
    assert ask(broker, f"/health/checks/port-listener/{ports['https']}", trusting())[0] == 200


def test_who_does_not_trust_the_authority_asks_nothing(broker: BrokerProcess) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(broker, "/overview", trusting(FOREIGN))


def test_plain_bytes_and_silence_end_and_disturb_nobody(broker: BrokerProcess) -> None:
    with (
        socket.create_connection(("127.0.0.1", https_port(broker)), 5) as plain,
        socket.create_connection(("127.0.0.1", https_port(broker)), 10) as silent,
    ):
        plain.sendall(b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with_answer = b"HTTP/" in plain.recv(1_024)
        assert not with_answer
        assert ask(broker, "/whoami", trusting())[0] == 200
        assert silent.recv(1) == b""  # after five seconds


def test_old_versions_of_tls_are_refused(broker: BrokerProcess) -> None:
    context = trusting()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = context.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(broker, "/whoami", context)


@pytest.fixture
def url(broker: BrokerProcess) -> Callable[[str], str]:
    return lambda user: f"https://{user}@localhost:{https_port(broker)}"


def test_commands_go_over_tls_with_an_authority_of_ones_own(
    folder: Path, url: Callable[[str], str]
) -> None:
    trusted = ("--ca-file", str(folder / "ca.pem"))
    added = run("vhost", "add", "far", "--url", url("guest:guest"), *trusted)
    assert added.exit_code == 0, added.stderr
    listed = run("list", "vhosts", "--url", url("guest"), *trusted, given="guest\n")
    assert listed.exit_code == 0, listed.stderr
    assert "far" in listed.stdout
    assert "guest\n" not in listed.stdout  # the password is not echoed


def test_commands_say_why_they_do_not_reach_a_broker(
    folder: Path, url: Callable[[str], str]
) -> None:
    trusted = ("--ca-file", str(folder / "ca.pem"))
    for arguments, exit_code, reason in (
        (("--url", url("guest:guest")), 2, "CERTIFICATE_VERIFY_FAILED"),
        (("--url", url("guest:wrong"), *trusted), 1, "Login failed"),
        (("--url", url("guest:guest"), "--ca-file", "/nowhere"), 2, "--ca-file /nowhere: No such"),
        (("--url", "https://localhost:1"), 2, "expected https://user@host"),
        (("--url", "amqps://guest:guest@localhost"), 2, "expected https://user@host"),
        (("--url", "https://guest:guest@localhost:many"), 2, "--url: Port could not"),
    ):
        done = run("list", "vhosts", *arguments)
        assert (done.exit_code, reason in done.stderr) == (exit_code, True), done.stderr


def test_a_renewed_certificate_is_shown_after_sighup(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", environment(tmp_path)).start()
    try:
        assert ask(broker, "/whoami", trusting())[0] == 200
        written(tmp_path / "server.pem", FOREIGN.issue_cert("localhost"))
        os.kill(broker.pid, signal.SIGHUP)

        def is_renewed() -> bool:
            try:
                return ask(broker, "/whoami", trusting(FOREIGN))[0] == 200
            except ssl.SSLCertVerificationError:
                return False

        wait_until(is_renewed)
        (tmp_path / "server.pem").write_text("nothing that could be a certificate")
        os.kill(broker.pid, signal.SIGHUP)
        wait_until(lambda: "certificates stay as they were" in broker.log_text())
        assert ask(broker, "/whoami", trusting(FOREIGN))[0] == 200
    finally:
        broker.stop()


def test_clients_can_be_asked_for_certificates_of_their_own(tmp_path: Path) -> None:
    settings = environment(
        tmp_path, tls_authorities=str(tmp_path / "ca.pem"), management_tls_verify="required"
    )
    broker = BrokerProcess(tmp_path / "data", settings).start()
    try:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(broker, "/whoami", trusting())
        context = trusting()
        AUTHORITY.issue_cert("ann@localhost").configure_cert(context)
        assert ask(broker, "/whoami", context)[0] == 200
    finally:
        broker.stop()


def test_a_port_that_is_taken_leaves_the_other_doors_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        settings = environment(tmp_path, management_tls_port=port)
        broker = BrokerProcess(tmp_path / "data", settings).start()
        try:
            assert f"there is no HTTP API over TLS on 127.0.0.1:{port}" in broker.log_text()
            listed = run("list", "vhosts", "--data-dir", str(broker.data_dir))
            assert listed.exit_code == 0, listed.stderr
        finally:
            broker.stop()


def test_a_certificate_that_expires_soon_is_reported(tmp_path: Path) -> None:
    settings = environment(tmp_path)
    soon = datetime.now(UTC) + timedelta(days=20)
    written(tmp_path / "server.pem", AUTHORITY.issue_cert("localhost", not_after=soon))
    broker = BrokerProcess(tmp_path / "data", settings).start()
    try:
        check = "/health/checks/certificate-expiration"
        assert ask(broker, f"{check}/2/weeks", trusting()) == (200, {"status": "ok"})
        status, answer = ask(broker, f"{check}/1/months", trusting())
        assert (status, answer["reason"]) == (503, "Certificates expiring")
        assert {each["protocol"] for each in answer["expired"]} == {"amqp/ssl", "https"}
        expected = f"{soon:%Y-%m-%d %H:%M:%S}"
        assert {each["certfile_expires_on"] for each in answer["expired"]} == {expected}
        for path in ("soon/months", "-1/days", "1/moons"):
            assert ask(broker, f"{check}/{path}", trusting())[0] == 400
    finally:
        broker.stop()
