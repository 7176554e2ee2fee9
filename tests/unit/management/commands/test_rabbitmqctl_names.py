"""Commands by the names that rabbitmqctl has for them."""

import json
from pathlib import Path

import pytest
from unit.management.commands.asked_broker import Asked, Broker, Run

from routelog.management.commands import broker_option, rabbitmqctl_names
from routelog.management.commands.api_address import NotReachable

ROWS = [{"name": "q", "messages": 1_000, "vhost": "v", "user": "u", "read": "r"}]


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("add_user u secret", ("PUT", ("users", "u"), {"password": "secret", "tags": ""}, "")),
        ("delete_user u", ("DELETE", ("users", "u"), None, "")),
        (
            "set_user_tags u management",
            ("PUT", ("users", "u", "tags"), {"tags": ["management"]}, ""),
        ),
        (
            "set_permissions -p v u c w r",
            ("PUT", ("permissions", "v", "u"), {"configure": "c", "write": "w", "read": "r"}, ""),
        ),
        ("clear_permissions -p v u", ("DELETE", ("permissions", "v", "u"), None, "")),
        ("add_vhost v", ("PUT", ("vhosts", "v"), {}, "")),
        ("delete_vhost v", ("DELETE", ("vhosts", "v"), None, "")),
        (
            'set_policy p ^q {"max-length":1} --apply-to queues',
            (
                "PUT",
                ("policies", "/", "p"),
                {
                    "pattern": "^q",
                    "definition": {"max-length": 1},
                    "priority": 0,
                    "apply-to": "queues",
                },
                "",
            ),
        ),
        ("clear_policy p -p v", ("DELETE", ("policies", "v", "p"), None, "")),
        ("purge_queue q -p v", ("DELETE", ("queues", "v", "q", "contents"), None, "")),
        (
            "delete_queue q --if-empty",
            ("DELETE", ("queues", "/", "q"), None, "if-empty=true&if-unused=false"),
        ),
        ("close_connection c", ("DELETE", ("connections", "c"), None, "")),
        ("trace_on -p v", ("PUT", ("vhosts", "v"), {"tracing": True}, "")),
    ],
)
def test_a_command_asks_the_same_as_ours(run: Run, broker: Broker, line: str, asked: Asked) -> None:
    broker.answers[("users",)] = []
    result = run(*line.split())
    assert result.exit_code == 0, result.output
    assert broker.asked == [asked]


@pytest.mark.parametrize(
    ("line", "path", "shown"),
    [
        ("list_queues -p v", ("queues", "v"), ["q", "1000"]),
        ("list_queues messages vhost", ("queues", "/"), ["1000", "v"]),
        ("list_exchanges", ("exchanges", "/"), ["q"]),
        ("list_permissions -p v", ("vhosts", "v", "permissions"), ["u", "r"]),
        ("list_connections name", ("connections",), ["q"]),
        ("list_channels", ("channels",), ["q", "u"]),
        ("list_users", ("users",), ["q"]),
        ("list_vhosts", ("vhosts",), ["q"]),
        ("list_user_permissions u", ("users", "u", "permissions"), ["v", "r"]),
    ],
)
def test_a_list_has_the_columns_that_are_named(
    run: Run, broker: Broker, line: str, path: tuple[str, ...], shown: list[str]
) -> None:
    broker.answers[path] = ROWS
    assert run(*line.split()).output.splitlines()[1].split() == shown
    as_json = run(*line.split(), "--json").output
    assert json.loads(as_json) == ROWS[0]


@pytest.mark.parametrize(
    "line", ["list_queues name TYPO", "list_users TYPO", "list_policies name messages"]
)
def test_a_column_that_no_row_can_have_is_refused(run: Run, broker: Broker, line: str) -> None:
    result = run(*line.split())
    assert result.exit_code == 2
    assert f"no column '{line.split()[-1]}'" in result.output
    assert broker.asked == []


def test_a_column_is_named_as_in_json(run: Run, broker: Broker) -> None:
    broker.answers[("policies", "/")] = [{"apply-to": "queues"}]
    broker.answers[("connections",)] = [{"recv_oct": 7}]
    assert "queues" in run("list_policies", "apply-to").output
    assert "7" in run("list_connections", "recv_oct").output
    assert run("list_policies", "apply_to").exit_code == 2


def test_a_password_is_changed_and_tags_stay(run: Run, broker: Broker) -> None:
    broker.answers[("users", "u")] = {"tags": ["monitoring"]}
    assert run("change_password", "u", "new").exit_code == 0
    body = {"password": "new", "tags": ["monitoring"]}
    assert broker.asked == [("PUT", ("users", "u"), body, "")]


def test_a_user_that_is_there_is_not_added(run: Run, broker: Broker) -> None:
    broker.answers[("users",)] = [{"name": "u"}]
    assert run("add_user", "u", "x").exit_code == 1
    assert broker.asked == []


def test_nodes_are_listed_also_of_one(run: Run, broker: Broker) -> None:
    broker.answers[("nodes",)] = [{"name": "rabbit@a", "running": True, "in_sync": True}]
    assert run("cluster_status").output.splitlines()[1].split() == ["rabbit@a", "yes", "yes"]
    assert json.loads(run("cluster_status", "--json").output)["running"] is True


@pytest.mark.parametrize(("tries", "code"), [(3, 0), (2, 2)])
def test_a_start_is_awaited_for_so_many_seconds(
    run: Run, broker: Broker, monkeypatch: pytest.MonkeyPatch, tries: int, code: int
) -> None:
    slept: list[float] = []

    def local_api(data_dir: Path) -> None:
        if len(slept) < 2:
            raise NotReachable("not yet")

    monkeypatch.setattr(broker_option, "local_api", local_api)
    monkeypatch.setattr(rabbitmqctl_names, "sleep", slept.append)
    broker.answers[("whoami",)] = {}
    result = run("await_startup", "--timeout", str(tries))
    assert result.exit_code == code
    assert sum(slept) == min(2, tries - 1)
    assert result.stderr == ("" if code == 0 else "routelog: not yet\n")


def test_the_help_does_not_show_these_names(run: Run) -> None:
    assert "list_queues" not in run("--help").output
