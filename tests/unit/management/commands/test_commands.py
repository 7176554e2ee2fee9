"""Operators' commands: what each one asks of the broker, and what it prints of the answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner
from unit.management.commands.asked_broker import Asked, Broker, Run

from routelog.management.calls.caller import Need
from routelog.management.commands import log_command, message_commands
from routelog.management.commands.commands import TAGS
from routelog.management.commands.log_command import tail_log
from routelog.vhosts.people.imported_password import DEFAULT_ALGORITHM, verify_imported
from routelog.vhosts.stored.user import IMPERSONATOR

DELAYED = ("exchanges", "/", "x", "delayed")


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("connection close c1", ("DELETE", ("connections", "c1"), None, "")),
        ("queue purge q --vhost v", ("DELETE", ("queues", "v", "q", "contents"), None, "")),
        (
            "queue set q x-max-length=5 x-overflow=reject-publish x-expires= x-max-age=null -p v",
            (
                "PUT",
                ("queues", "v", "q", "arguments"),
                {
                    "x-max-length": 5,
                    "x-overflow": "reject-publish",
                    "x-expires": None,
                    "x-max-age": None,
                },
                "",
            ),
        ),
        ("queue pause q -p v", ("PUT", ("queues", "v", "q", "pause"), None, "")),
        ("queue resume q", ("PUT", ("queues", "/", "q", "resume"), None, "")),
        (
            "queue delete q",
            ("DELETE", ("queues", "/", "q"), None, "if-empty=false&if-unused=false"),
        ),
        (
            "queue delete q --if-empty --if-unused",
            ("DELETE", ("queues", "/", "q"), None, "if-empty=true&if-unused=true"),
        ),
        ("user delete u", ("DELETE", ("users", "u"), None, "")),
        (
            "user tags u monitoring impersonator",
            ("PUT", ("users", "u", "tags"), {"tags": ["monitoring", "impersonator"]}, ""),
        ),
        ("user tags u", ("PUT", ("users", "u", "tags"), {"tags": []}, "")),
        (
            "permission set u c w r",
            ("PUT", ("permissions", "/", "u"), {"configure": "c", "write": "w", "read": "r"}, ""),
        ),
        ("permission clear u --vhost v", ("DELETE", ("permissions", "v", "u"), None, "")),
        (
            "topic-permission set u x w r",
            (
                "PUT",
                ("topic-permissions", "/", "u"),
                {"exchange": "x", "write": "w", "read": "r"},
                "",
            ),
        ),
        ("topic-permission clear u", ("DELETE", ("topic-permissions", "/", "u"), None, "")),
        ("topic-permission clear u x", ("DELETE", ("topic-permissions", "/", "u", "x"), None, "")),
        ("vhost add v", ("PUT", ("vhosts", "v"), {}, "")),
        ("vhost add v --description d", ("PUT", ("vhosts", "v"), {"description": "d"}, "")),
        ("vhost delete v", ("DELETE", ("vhosts", "v"), None, "")),
        ("trace on", ("PUT", ("vhosts", "/"), {"tracing": True}, "")),
        ("trace off --vhost v", ("PUT", ("vhosts", "v"), {"tracing": False}, "")),
        (
            'policy set p ^q {"max-age":"7D"} --priority 2',
            (
                "PUT",
                ("policies", "/", "p"),
                {
                    "pattern": "^q",
                    "definition": {"max-age": "7D"},
                    "priority": 2,
                    "apply-to": "all",
                },
                "",
            ),
        ),
        ("policy clear p", ("DELETE", ("policies", "/", "p"), None, "")),
        ("policy clear p --operator", ("DELETE", ("operator-policies", "/", "p"), None, "")),
        (
            "limit set max-queues -1 --vhost v",
            ("PUT", ("vhost-limits", "v", "max-queues"), {"value": -1}, ""),
        ),
        (
            "limit set max-queues -1 -p v",
            ("PUT", ("vhost-limits", "v", "max-queues"), {"value": -1}, ""),
        ),
        (
            "limit clear max-channels --user u",
            ("DELETE", ("user-limits", "u", "max-channels"), None, ""),
        ),
        ("delayed cancel x 1-0-1", ("DELETE", (*DELAYED, "1-0-1"), None, "")),
        ("delayed cancel x --all", ("DELETE", DELAYED, None, "")),
        (
            "reader move q lake --to 1h",
            ("PUT", ("logs", "/", "q", "readers", "lake", "position"), {"to": "1h"}, ""),
        ),
        (
            "queue declare q --type quorum --argument x-max-length=5 --transient",
            (
                "PUT",
                ("queues", "/", "q"),
                {
                    "durable": False,
                    "auto_delete": False,
                    "arguments": {"x-max-length": 5, "x-queue-type": "quorum"},
                },
                "",
            ),
        ),
        (
            "queue bind q x --key k --argument a=b",
            (
                "POST",
                ("bindings", "/", "e", "x", "q", "q"),
                {"routing_key": "k", "arguments": {"a": "b"}},
                "",
            ),
        ),
        (
            "exchange declare x --type topic --internal",
            (
                "PUT",
                ("exchanges", "/", "x"),
                {
                    "type": "topic",
                    "durable": True,
                    "auto_delete": False,
                    "internal": True,
                    "arguments": {},
                },
                "",
            ),
        ),
        ("reader delete q lake", ("DELETE", ("logs", "/", "q", "readers", "lake"), None, "")),
    ],
)
def test_a_command_is_one_request(run: Run, broker: Broker, line: str, asked: Asked) -> None:
    result = run(*line.split(" "))
    assert (result.exit_code, result.output) == (0, "")
    assert broker.asked == [asked]


@pytest.mark.parametrize(
    "line",
    [
        "list sheep",
        "list users --vhost v",
        "limit set max-queues 1",
        "limit set max-queues 1 --vhost v --user u",
        "limit set max-queues many --vhost v",
        "policy set p ^q {",
        "queue declare q --argument x",
        "queue move q --all",
        "queue move q --all --delete --to-queue other",
        "queue move q --all --delete --to-exchange x",
        "queue move q --all --to-queue other --routing-key k",
        "queue replay q",
        "delayed cancel x",
        "delayed cancel x 1-0-1 --all",
        "reader move q lake",
    ],
)
def test_what_cannot_be_meant_is_asked_of_nobody(run: Run, broker: Broker, line: str) -> None:
    assert run(*line.split(" ")).exit_code == 2
    assert broker.asked == []


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("list queues", ("queues",)),
        ("list queues --vhost v", ("queues", "v")),
        ("list queues -p v", ("queues", "v")),
        ("list connections --vhost v", ("vhosts", "v", "connections")),
        ("permission list", ("permissions",)),
        ("topic-permission list", ("topic-permissions",)),
        ("policy list", ("policies",)),
        ("policy list --operator", ("operator-policies",)),
    ],
)
def test_lists_are_json_for_programs(
    run: Run, broker: Broker, line: str, path: tuple[str, ...]
) -> None:
    rows = [{"name": "a", "vhost": "v", "n": 1}, {"name": "b", "vhost": "v", "n": None}]
    broker.answers[path] = rows
    result = run(*line.split(" "), "--json")
    assert [json.loads(text) for text in result.output.splitlines()] == rows
    assert (
        run(*line.split(" "))
        .output.splitlines()[0]
        .startswith("vhost" if path[0] != "vhosts" else "name")
    )


def test_limits_of_vhosts_and_users_are_one_list(run: Run, broker: Broker) -> None:
    broker.answers[("vhost-limits",)] = [{"vhost": "v", "value": {"max-queues": 1}}]
    broker.answers[("user-limits",)] = [{"user": "u", "value": {"max-channels": 2}}]
    assert len(run("limit", "list", "--json").output.splitlines()) == 2


def test_readers_are_listed_by_partition(run: Run, broker: Broker) -> None:
    places = [{"next_offset": number} for number in (3, 4)]
    row = {"name": "lake", "hold_bytes": 7, "consumers": 0, "partitions": places}
    broker.answers[("logs", "/", "q", "readers")] = [row]
    found = [json.loads(text) for text in run("reader", "list", "q", "--json").output.splitlines()]
    assert [(each["partition"], each["next_offset"]) for each in found] == [(0, 3), (1, 4)]


def test_what_an_exchange_holds_is_listed_a_page_at_a_time(run: Run, broker: Broker) -> None:
    broker.answers[DELAYED] = {"items": [{"id": "1-0-1"}], "next": None}
    assert "1-0-1" in run("delayed", "list", "x", "--from", "1-0-1", "--count", "7").output


@pytest.mark.parametrize(
    "line",
    [
        "user add u --password p --tags management,admin",
        "user tags u admin",
        "set_user_tags u admin",
    ],
)
def test_a_tag_that_means_nothing_is_refused(run: Run, broker: Broker, line: str) -> None:
    result = run(*line.split())
    assert result.exit_code == 2
    assert "routelog: no tag 'admin'; there are administrator, impersonator, " in result.stderr
    assert broker.asked == []


def test_the_tags_are_those_that_the_broker_knows() -> None:
    assert {*TAGS} == {each.value for each in Need if each is not Need.LOGIN} | {IMPERSONATOR}


def test_a_user_is_added_once_with_a_password_that_may_be_read(run: Run, broker: Broker) -> None:
    broker.answers[("users",)] = [{"name": "known"}]
    assert run("user", "add", "u", "--tags", "management", typed="secret\n").exit_code == 0
    assert run("user", "add", "v", "--password", "given").exit_code == 0
    assert broker.asked == [
        ("PUT", ("users", "u"), {"password": "secret", "tags": "management"}, ""),
        ("PUT", ("users", "v"), {"password": "given", "tags": ""}, ""),
    ]
    result = run("user", "add", "known", "--password", "p")
    assert (result.exit_code, "already exists" in result.output) == (1, True)
    assert run("user", "add", "w", typed="").exit_code == 2  # nobody types one
    assert len(broker.asked) == 2


@pytest.mark.parametrize("line", ["user password u", "queue publish q"])
def test_standard_input_that_is_no_text_is_a_line(run: Run, broker: Broker, line: str) -> None:
    broker.answers[("users", "u")] = {"name": "u", "tags": []}
    result = run(*line.split(" "), typed=b"\xff\xfe\n")
    assert (result.exit_code, result.output) == (
        2,
        "routelog: an argument, or standard input, is not UTF-8\n",
    )
    assert broker.asked == []


def test_a_new_password_leaves_the_tags(run: Run, broker: Broker) -> None:
    broker.answers[("users", "u")] = {"name": "u", "tags": ["a"]}
    assert run("user", "password", "u", typed="new\n").exit_code == 0
    assert broker.asked == [("PUT", ("users", "u"), {"password": "new", "tags": ["a"]}, "")]


def test_definitions_go_through_files(run: Run, broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    broker.answers[("definitions",)] = {"users": []}
    assert run("definitions", "export", str(file)).exit_code == 0
    assert json.loads(file.read_text()) == {"users": []}
    broker.answers[("definitions", "v")] = {"kept_without_effect": ["shovel \x1b[31m"]}
    result = run("definitions", "import", str(file), "--vhost", "v", "--keep-unknown")
    assert result.output == "kept without effect: shovel \\x1b[31m\n"
    assert broker.asked == [("POST", ("definitions", "v"), file.read_bytes(), "unknown=keep")]
    assert run("definitions", "export", str(file), "-p", "v").exit_code == 0
    assert "kept_without_effect" in file.read_text()


def test_an_empty_file_holds_no_definitions(run: Run, broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "cut.json"
    file.write_text("\n")
    result = run("definitions", "import", str(file), "-p", "v")
    assert (result.exit_code, "empty" in result.output) == (2, True)
    assert broker.asked == []


def test_a_refusal_is_one_line_and_exit_code_1(run: Run, broker: Broker) -> None:
    broker.refusal = "not you\x1b[31m"
    result = run("vhost", "delete", "v")
    assert (result.exit_code, result.output.strip()) == (1, "routelog: not you\\x1b[31m")


# Status

NODE: dict[str, Any] = {
    "name": "n",
    "os_pid": "7",
    "uptime": 61_000,
    "data_dir": "/d",
    "standbys": [],
    "mem_used": None,
    "disk_free": 5 << 20,
    "disk_free_limit": 1 << 20,
    **dict.fromkeys(
        ("mem_alarm", "disk_free_alarm", "files_alarm", "journal_alarm", "log_alarm"), False
    ),
}
OVERVIEW: dict[str, Any] = {
    "node": "n",
    "product_version": "0.1",
    "rabbitmq_version": "3.10",
    "queue_totals": {"messages_ready": 3, "messages_unacknowledged": 1},
    "object_totals": {"queues": 2},
    "listeners": [{"protocol": "amqp", "ip_address": "::1", "port": 5672}],
}


def test_the_status_is_a_table_with_units(run: Run, broker: Broker) -> None:
    node = {**NODE, "disk_free_alarm": True}
    broker.answers |= {("overview",): OVERVIEW, ("nodes",): [node]}
    broker.answers[("health", "checks", "alarms")] = {"status": "ok"}
    lines = {line.split("  ")[0]: line for line in run("status").output.splitlines()}
    for name, value in {
        "disk free": "5 MiB",
        "memory used": "unknown",
        "uptime": "0:01:01",
        "listeners": "amqp [::1]:5672",
        "alarms": "disk",
        "queues": "2",
    }.items():
        assert lines[name].split(name, 1)[1].strip() == value
    assert json.loads(run("status", "--json").output)["nodes"] == [node]


def test_the_status_is_of_the_node_that_answers(run: Run, broker: Broker) -> None:
    other = {"name": "m", "running": True}  # all that a leader knows of it
    broker.answers |= {
        ("overview",): OVERVIEW,
        ("nodes",): [other, NODE],
        ("health", "checks", "alarms"): {"status": "ok"},
    }
    assert "/d" in run("status").output
    assert json.loads(run("status", "--json").output)["nodes"] == [other, NODE]


def test_the_status_tells_how_far_standbys_are_behind(run: Run, broker: Broker) -> None:
    told = {"name": "s", "is_connected": False, "bytes": 4_096, "seconds": 1.25}
    broker.answers |= {
        ("overview",): OVERVIEW,
        ("nodes",): [{**NODE, "standbys": [told]}],
        ("health", "checks", "alarms"): {"status": "ok"},
    }
    assert "s: not connected, 4,096 bytes, 1.2 s behind" in run("status").output


def test_a_move_goes_on_until_all_is_done(run: Run, broker: Broker) -> None:
    path = ("queues", "/", "q", "move")
    done = {"count": 3, "skipped": {"unacked": 2}, "next": "0:5-9", "stopped": None}
    broker.answers[path] = done
    result = run("queue", "move", "q", "--message", "0:1", "--to-queue", "to", "--limit", "7")
    assert result.output == "9 messages moved; left: 6 unacked\n"
    to = {"to": {"queue": "to"}, "mode": "move", "dry_run": False}
    following = {"filter": {"offset": "0:5-9"}}
    assert [body for _, _, body, _ in broker.asked] == [
        {"messages": ["0:1"], **to, "limit": 7},
        {**following, **to, "limit": 4},
        {**following, **to, "limit": 1},
    ]


@pytest.mark.parametrize(
    ("more", "told"), [((), "3 messages published again"), (("--json",), '{"count":3,')]
)
def test_what_was_done_before_a_step_fails_is_told(
    run: Run, broker: Broker, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], told: str
) -> None:
    done = {"count": 3, "skipped": {}, "next": "0:5-9", "stopped": None}
    broker.answers["queues", "/", "q", "replay"] = done
    pieces = broker.pieces

    def once(*asked: Any, **more: Any) -> Iterator[bytes]:
        yield from pieces(*asked, **more)
        broker.refusal = "the broker stops"

    monkeypatch.setattr(broker, "pieces", once)
    result = run("queue", "replay", "q", "--to-queue", "to", *more)
    assert result.exit_code == 1
    assert told in result.output
    assert "the broker stops" in result.output


def test_a_person_types_the_name_of_the_queue(
    run: Run, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_commands, "_is_asked", lambda: True)
    path = ("queues", "/", "q", "redrive")
    broker.answers[path] = {"count": 2, "skipped": {}, "next": None, "stopped": None}
    result = run("queue", "redrive", "q", typed="other\n")
    assert result.exit_code == 1
    assert "2 messages of queue 'q' will be sent back." in result.output
    assert [body["dry_run"] for _, _, body, _ in broker.asked] == [True]  # type: ignore[index]
    assert run("queue", "redrive", "q", typed="q\n").exit_code == 0
    assert run("queue", "redrive", "q", "--yes").output == "2 messages sent back\n"


def test_a_password_is_hashed_without_a_broker(run: Run, broker: Broker) -> None:
    result = run("user", "hash-password", typed="secret\n")
    assert verify_imported(DEFAULT_ALGORITHM, result.output.strip(), b"secret")
    assert broker.asked == []


def test_may_he_is_answered_with_the_rules_and_an_exit_code(run: Run, broker: Broker) -> None:
    rules = [{"rule": "permission", "allowed": True, "text": "write '^a' matches 'a.x'"}]
    path = ("permissions", "v", "u", "may")
    broker.answers[path] = {"allowed": True, "exists": False, "rules": rules}
    result = run("permission", "may", "u", "write", "a.x", "--key", "k&l", "--vhost", "v")
    assert result.exit_code == 0
    assert "write '^a' matches 'a.x'\nyes\n" in result.output
    assert "no exchange 'a.x' in vhost 'v'" in result.output
    assert broker.queries == ["verb=write&exchange=a.x&routing_key=k%26l"]
    broker.answers[path] = {"allowed": False, "exists": True, "rules": []}
    result = run("permission", "may", "u", "read", "q", "--queue", "--vhost", "v", "--json")
    assert (result.exit_code, json.loads(result.output)["allowed"]) == (1, False)
    assert broker.queries[1:] == ["verb=read&queue=q"]
    assert run("permission", "may", "u", "read", "q", "--queue", "--key", "k").exit_code == 2


def test_a_move_of_a_reader_is_tried(run: Run, broker: Broker) -> None:
    of = ("logs", "/", "q", "readers", "lake", "position")
    broker.answers[of] = {"skipped": 1_200, "repeated": 0}
    result = run("reader", "move", "q", "lake", "--to", "next", "--dry-run")
    assert result.output == "skips 1,200 messages, reads 0 once more\n"
    assert broker.asked == [("PUT", of, {"to": "next", "dry_run": True}, "")]


def test_an_import_is_tried(run: Run, broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text("{}")
    counts = {"added": 1, "changed": 0, "unchanged": 2, "left": 0}
    entry = {"what": "added", "kind": "queues", "vhost": "/", "name": "q", "reason": ""}
    plan = {"counts": {"queues": counts}, "entries": [entry], "kept_without_effect": ["shovel"]}
    broker.answers[("definitions",)] = plan
    result = run("definitions", "import", str(file), "--dry-run")
    assert [line.split() for line in result.output.splitlines()][1:] == [
        ["queues", "1", "0", "2", "0"],
        ["what", "kind", "vhost", "name", "reason"],
        ["added", "queues", "/", "q"],
        ["kept", "without", "effect:", "shovel"],
    ]
    assert broker.asked == [("POST", ("definitions",), b"{}", "dry_run=true")]
    result = run("definitions", "import", str(file), "--dry-run", "--json")
    assert json.loads(result.output.splitlines()[0]) == entry


def log_line(number: int, message: str) -> dict[str, object]:
    return {"number": number, "time": "12:00", "level": "info", "message": message}


@pytest.fixture
def tail(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `log tail`; a pause ends when the broker has logged one line more, or Ctrl-C comes."""
    command_line = typer.Typer()
    command_line.command()(tail_log)
    pages = [{"items": [log_line(6, "second")], "next": 6}]

    def sleep(seconds: float) -> None:
        if not pages:
            raise KeyboardInterrupt
        broker.answers[("log",)] = pages.pop()

    monkeypatch.setattr(log_command, "sleep", sleep)
    broker.answers[("log",)] = {"items": [log_line(5, "fi\x1brst")], "next": 5}
    return lambda *arguments: CliRunner().invoke(command_line, list(arguments))


def test_the_log_is_followed_until_ctrl_c(tail: Run, broker: Broker) -> None:
    result = tail("--follow", "--level", "info", "--lines", "3")
    assert result.output.splitlines()[:2] == ["12:00 INFO fi\\x1brst", "12:00 INFO second"]
    assert (
        broker.queries
        == [
            "level=info&count=3",
            "level=info&count=1000&since=5",
            "level=info&count=1000&since=6",
        ][: len(broker.queries)]
    )
    assert len(broker.queries) >= 2


def test_the_log_is_shown_once_as_json(tail: Run, broker: Broker) -> None:
    result = tail("--json", "--since", "1h", "--via", "HTTP")
    assert [json.loads(line)["number"] for line in result.output.splitlines()] == [5]
    assert broker.queries == ["via=HTTP&count=20&since=1h"]
