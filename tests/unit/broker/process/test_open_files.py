import os
import re
import resource
from pathlib import Path
from typing import Any

import pytest

from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.open_files import (
    FILES_RESERVED,
    FILES_WANTED,
    make_room_for_open_files,
    open_files_limit,
    raise_open_files_limit,
    socket_limits,
)
from routelog.broker.sockets.accepted_sockets import SocketLimits

Limit = tuple[int, int]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Limit]:
    """What the system was asked for, the limits of this process aside."""
    asked: list[Limit] = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limit: asked.append(limit))
    return asked


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        ((1_024, 20_000), (20_000, 20_000)),
        ((1_024, 1 << 30), (FILES_WANTED, 1 << 30)),
        ((1_024, resource.RLIM_INFINITY), (FILES_WANTED, resource.RLIM_INFINITY)),
    ],
)
def test_the_limit_is_raised_to_what_is_allowed(
    limit: Limit, wanted: Limit, asked: list[Limit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limit)
    assert raise_open_files_limit() == wanted[0]
    assert asked == [wanted]


@pytest.mark.parametrize(
    "limit", [(4_096, 4_096), (1 << 20, 1 << 20), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)]
)
def test_a_limit_that_is_high_enough_is_left_alone(
    limit: Limit, asked: list[Limit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limit)
    assert raise_open_files_limit() >= 4_096
    assert asked == []


def test_a_system_that_refuses_is_no_reason_not_to_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(kind: int, limit: Limit) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1_024, 4_096))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_open_files_limit() == 1_024
    assert "cannot be raised" in caplog.text


def test_there_is_room_for_them_at_once_and_none_stays_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    make_room_for_open_files(4_000)
    assert len(os.listdir("/proc/self/fd")) == before
    size = re.search(r"FDSize:\s+(\d+)", Path("/proc/self/status").read_text())
    assert size is not None
    assert int(size[1]) >= 4_000


def test_no_room_for_them_is_no_reason_not_to_start() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
    try:
        make_room_for_open_files(2_048)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_is_allowed_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1_000, 2_000))
    assert open_files_limit() == 1_000
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)
    assert open_files_limit() == FILES_WANTED


def test_clients_have_what_the_log_leaves() -> None:
    limits = socket_limits(BrokerConfig(), 65_536)
    assert limits.http == SocketLimits(1_024, 256)
    assert limits.amqp == SocketLimits(65_536 - FILES_RESERVED - 8 - 1_024, 256)


@pytest.mark.parametrize(
    ("keys", "files_of_a_client"),
    [({"standby_listen": "a:1"}, 1), ({"cluster_nodes": ("a=a:1",)}, 2)],
)
def test_nodes_have_a_share_and_clients_of_http_that_are_passed_on_have_two_files(
    keys: dict[str, Any], files_of_a_client: int
) -> None:
    limits = socket_limits(BrokerConfig(**keys), 65_536)
    assert limits.nodes == SocketLimits(512, 256)
    left = 65_536 - FILES_RESERVED - 8 - 512
    assert limits.amqp.all == left - files_of_a_client * limits.http.all


def test_limits_that_are_chosen_hold() -> None:
    config = BrokerConfig(
        connections_max=100,
        connections_unauthenticated_max=10,
        management_connections_max=20,
        management_connections_unauthenticated_max=5,
    )
    limits = socket_limits(config, 65_536)
    assert (limits.amqp, limits.http) == (SocketLimits(100, 10), SocketLimits(20, 5))


@pytest.mark.parametrize("files", [1, 64, 256, 1_024, 4_096])
def test_all_sockets_together_leave_files_to_the_log(files: int) -> None:
    config = BrokerConfig(
        management_connections_max=60_000, connections_max=60_000, cluster_nodes=("a=a:1",)
    )
    limits = socket_limits(config, files)
    amqp, http, nodes = limits.amqp, limits.http, limits.nodes
    assert amqp.all >= 1
    assert http.all >= 1
    assert nodes.all >= 1
    if files >= 64:
        of_clients = amqp.all + 2 * http.all
        assert of_clients + nodes.all + min(FILES_RESERVED + 8, files // 2) <= files
        assert amqp.unauthenticated < amqp.all
        assert http.all < amqp.all
