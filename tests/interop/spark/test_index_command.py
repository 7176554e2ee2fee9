"""`routelog index`: a queue as a table that SQL is asked of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner
from unit.spark_bridge.log_files import LogFiles, records

from routelog.__main__ import command_line

pytestmark = pytest.mark.interop

COLUMNS = "id long, total double, area string from key 2"


def run(folder: Path, command: str, *arguments: str, status: int = 0) -> str:
    """What a command prints; on stderr, if it is to fail."""
    done = CliRunner().invoke(command_line, ["index", command, *arguments, "--in", str(folder)])
    assert done.exit_code == status, done.output
    return done.stdout if status == 0 else done.stderr


def fill(data: Path) -> LogFiles:
    log = LogFiles(data, "orders")
    bodies = [json.dumps({"id": n, "total": n / 2}).encode() for n in range(9)] + [b"broken"]
    keys = [b"order.eu" if n % 3 else b"order.us" for n in range(10)]
    log.segment(0, (0, records(bodies, routing_keys=keys)))
    return log


def test_an_index_is_declared_filled_asked_and_dropped(tmp_path: Path) -> None:
    folder, data = tmp_path / "indexes", tmp_path / "data"
    log = fill(data)
    assert run(folder, "list", "--json") == ""
    declared = ("orders", "--queue", "orders", "--columns", COLUMNS)
    run(folder, "create", *declared)
    run(folder, "create", *declared)
    assert "another index orders" in run(folder, "create", *declared, "--body", status=2)
    (listed,) = run(folder, "list", "--json").splitlines()
    assert json.loads(listed)["columns"] == COLUMNS
    assert json.loads(run(folder, "update", "--path", str(data), "--json"))["records"] == 10
    log.segment(10, (10, records([b'{"id": 10, "total": 100}'], routing_key=b"order.eu")))
    assert (
        json.loads(run(folder, "update", "orders", "--path", str(data), "--json"))["records"] == 1
    )
    sql = "select area, count(*) as n, sum(total) as total from orders group by area order by area"
    rows = [json.loads(line) for line in run(folder, "query", sql, "--json").splitlines()]
    assert rows == [
        {"area": "eu", "n": 7, "total": 113.5},
        {"area": "us", "n": 4, "total": 4.5},
    ]
    broken = run(folder, "query", 'select "offset" from orders where _corrupt is not null')
    assert broken.split() == ["offset", "9"]
    run(folder, "drop", "orders")
    assert run(folder, "list", "--json") == ""
    assert "no index 'orders' in" in run(folder, "drop", "orders", status=2)


def test_an_index_without_its_queue_is_named_and_those_behind_it_are_updated(
    tmp_path: Path,
) -> None:
    folder, data = tmp_path / "indexes", tmp_path / "data"
    fill(data)
    for queue in ("gone", "orders"):
        run(folder, "create", queue, "--queue", queue, "--columns", COLUMNS)
    update = ["index", "update", "--path", str(data), "--json", "--in", str(folder)]
    done = CliRunner().invoke(command_line, update)
    assert done.exit_code == 1, done.output
    assert "index gone: option subscribe: no log of 'gone'" in done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line) | {"body_bytes": 0} == {
        "index": "orders",
        "records": 10,
        "body_bytes": 0,
        "transactions": 1,
    }


def test_an_index_of_a_damaged_queue_is_named_and_those_behind_it_are_updated(
    tmp_path: Path,
) -> None:
    folder, data = tmp_path / "indexes", tmp_path / "data"
    fill(data)
    log = LogFiles(data, "damaged")
    path = log.segment(0, (0, records([b"{}"])))
    log.segment(1, (1, records([b"{}"])))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    for queue in ("damaged", "orders"):
        run(folder, "create", queue, "--queue", queue, "--columns", COLUMNS)
    update = ["index", "update", "--path", str(data), "--json", "--in", str(folder)]
    done = CliRunner().invoke(command_line, update)
    assert done.exit_code == 1, done.output
    assert "index damaged: partition 0 of queue 'damaged' in vhost '/': " in done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["index"], each["records"]) for each in told] == [("damaged", 0), ("orders", 10)]


def test_a_query_sees_indexes_and_no_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    for sql in (f"select * from '{secret}'", "select * from nothing", "no sql"):
        run(tmp_path, "query", sql, status=2)
    assert run(tmp_path, "query", "select 40 + 2 as answer").split() == ["answer", "42"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["a b", "--columns", "id long"], "expected letters, digits and _, not 'a b'"),
        (["../x", "--columns", "id long"], "expected letters, digits and _"),
        (["a", "--columns", "id"], "--columns: expected a type"),
        (["a", "--columns", "offset long"], "every table has a column offset"),
        (["a", "--columns", "id long", "--body-format", "xml"], "expected json or msgpack or avro"),
    ],
)
def test_what_is_no_index_is_refused(tmp_path: Path, arguments: list[str], reason: str) -> None:
    assert reason in run(tmp_path, "create", *arguments, "--queue", "q", status=2)
    assert list(tmp_path.iterdir()) == []
