"""Two nodes: requests go to the one that does not lead, and are answered by its leader."""

from __future__ import annotations

import json
import os
import re
import shlex
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import trustme
from support.broker_process import COMMAND_VARIABLE, ROOT, BrokerProcess
from support.management_door import ManagementDoor

pytestmark = pytest.mark.differs_from_rabbitmq("its nodes find each other otherwise")

HERE = Path(__file__).parent


@dataclass
class PassingNode:
    """The process of `passing_node.py`."""

    process: subprocess.Popen[str]
    http: int = 0
    https: int = 0

    def wait_for(self, pattern: str) -> re.Match[str]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.match(pattern, line):
                return found
        raise AssertionError(f"it ended before it said {pattern}")

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.wait_for(f"told {line}")


@dataclass
class Two:
    """Both nodes."""

    leading: BrokerProcess
    passing: PassingNode
    authority: trustme.CA

    def lead(self) -> None:
        """The passing node learns of the leader's process."""
        found = re.findall(r"^cluster port=(\d+)$", self.leading.log_text(), re.MULTILINE)
        self.passing.tell(f"leader {self.leading.pid} {found[-1]}")

    def door(self) -> ManagementDoor:
        """The HTTP API by way of the passing node."""
        passed = ManagementDoor(self.leading)
        passed.address = passed.address._replace(netloc=f"127.0.0.1:{self.passing.http}")
        return passed


@pytest.fixture
def two(
    fresh_broker: Callable[..., BrokerProcess], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Two]:
    program = HERE / "leading_broker.py"
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(program)]))
    leading = fresh_broker()
    authority = trustme.CA()
    certificate = tmp_path / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(certificate)
    process = subprocess.Popen(
        [sys.executable, str(HERE / "passing_node.py"), str(certificate)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(HERE.parents[1])])},
    )
    passing = PassingNode(process)
    try:
        ready = passing.wait_for(r"ready http=(\d+) https=(\d+)")
        passing.http, passing.https = map(int, ready.groups())
        both = Two(leading, passing, authority)
        both.lead()
        yield both
    finally:
        process.kill()
        process.communicate()


def test_http_is_passed_on(two: Two) -> None:
    passed = two.door()
    assert passed.do("PUT", "queues", "/", "made", body={"durable": True}) is None
    (queue,) = ManagementDoor(two.leading).get("queues")
    assert passed.get("queues") == [queue]
    assert passed.ask("GET", "overview")[1]["node"].startswith("routelog@")
    passed.headers = {}
    assert passed.ask("GET", "queues")[0] == 401


def test_tls_ends_at_the_node(two: Two) -> None:
    context = ssl.create_default_context()
    two.authority.configure_trust(context)
    url = f"https://localhost:{two.passing.https}/api/whoami"
    request = Request(url, headers=ManagementDoor(two.leading).headers)
    with urlopen(request, context=context) as answer:
        assert json.load(answer)["name"] == "guest"


def test_another_process_of_the_leader_is_found(two: Two) -> None:
    assert two.door().get("queues") == []
    two.leading.restart()
    two.lead()
    assert two.door().get("queues") == []


def test_without_a_leader_requests_are_refused_after_the_wait(two: Two) -> None:
    two.passing.tell("nobody")
    began = time.monotonic()
    status, answer = two.door().ask("GET", "overview")
    assert time.monotonic() - began > 0.5
    reason = "no node takes clients: nobody leads"
    assert (status, answer) == (503, {"error": "no_leader", "reason": reason})
