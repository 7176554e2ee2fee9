"""Who may do what over HTTP: every route with every role."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection

import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients
from support.waiting import wait_until

from routelog.management.server.routes import ROUTES

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")

ROLES = ("untagged", "impersonator", "management", "policymaker", "monitoring", "administrator")

# As in RabbitMQ. What is in neither list is open to every tag.
ADMINISTRATORS = re.compile(
    r"(GET|PUT|POST|DELETE) /(users|permissions|topic-permissions|definitions)\b.*"
    r"|(PUT|DELETE) /(vhosts|operator-policies|vhost-limits|user-limits)/.*"
    r"|\w+ /(backup|log|feature-flags.*)|POST /(rebalance/queues|.*/actions|vhosts/.*/start/.*)"
    r"|PUT /cluster-name|GET /vhosts/\{vhost\}(/(topic-)?permissions)?|DELETE /reset.*"
)
MONITORS = re.compile(r"GET /(nodes.*|cluster)|\w+ /auth/attempts.*")
LOGS = re.compile(r"\w+ /logs\b.*")  # ours: permissions on queues say more
POLICYMAKERS = re.compile(r"(PUT|DELETE) /policies/.*|\w+ /(parameters|global-parameters).*")


def allowed(role: str, route: str) -> bool:
    if LOGS.fullmatch(route):
        return True
    if role in ("untagged", "impersonator"):
        return False
    if ADMINISTRATORS.fullmatch(route):
        return role == "administrator"
    if MONITORS.fullmatch(route):
        return role in ("monitoring", "administrator")
    if POLICYMAKERS.fullmatch(route):
        return role in ("policymaker", "administrator")
    return True


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("access")).start()
    guest = ManagementDoor(process)
    for role in ROLES:
        guest.add_user(role, "" if role == "untagged" else role)
    guest.do("PUT", "vhosts", "closed")
    yield process
    process.stop()


def path_of(route_path: str, vhost: str) -> str:
    path = route_path.replace("{vhost}", vhost.replace("/", "%2F")).replace("{kind:[qe]}", "q")
    path = re.sub(r"\{(\w+):[^}]*\}", r"{\1}", path)
    return re.sub(r"\{\w+\}", "nothing-of-this-name", path)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method}{route.path}")
def test_a_route_opens_to_the_tags_that_rabbitmq_opens_it_to(world: BrokerProcess, route) -> None:
    named = f"{route.method} {route.path}"
    for role in ROLES:
        door = ManagementDoor(world, (role, role))
        status, _, answer = door.raw(route.method, path_of(route.path, "/"))
        assert (status != 401) == allowed(role, named), (role, status, answer)
        assert status != 500, answer
    # A wrong password for each route would be more than the broker looks at: see below.
    assert ManagementDoor(world, None).raw(route.method, path_of(route.path, "/"))[0] == 401


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if route.has_vhost],
    ids=lambda route: f"{route.method}{route.path}",
)
def test_a_vhost_is_closed_to_those_without_a_permission_there(world: BrokerProcess, route) -> None:
    for role in ROLES:
        door = ManagementDoor(world, (role, role))
        status, _, answer = door.raw(route.method, path_of(route.path, "closed"))
        if role != "administrator":
            assert status == 401, (role, status, answer)
        assert status != 500, answer
        status, _, answer = door.raw(route.method, path_of(route.path, "nowhere"))
        absent = 400 if route.method == "PUT" and "permissions" in route.path else 404
        assert status in (401, absent), (role, status, answer)


def test_lists_show_what_the_caller_may_see(world: BrokerProcess) -> None:
    guest = ManagementDoor(world)
    guest.do(
        "PUT",
        "permissions",
        "closed",
        "guest",
        body=dict.fromkeys(("configure", "write", "read"), ".*"),
    )
    guest.do("PUT", "queues", "closed", "hidden", body={})
    for role, sees in (
        ("management", False),
        ("policymaker", False),
        ("monitoring", False),
        ("administrator", True),
    ):
        door = ManagementDoor(world, (role, role))
        knows = sees or role == "monitoring"
        assert (
            ("closed", "hidden") in [(q["vhost"], q["name"]) for q in door.get("queues")]
        ) == sees
        assert ("closed" in [vhost["name"] for vhost in door.get("vhosts")]) == knows
        assert ("closed" in {each["vhost"] for each in door.get("exchanges")}) == sees
        assert ("closed" in {each["vhost"] for each in door.get("bindings")}) == sees
        counted = door.get("overview")["object_totals"]["queues"]
        assert counted == len((guest if knows else door).get("queues"))


def test_the_limits_of_others_are_for_administrators(world: BrokerProcess) -> None:
    guest = ManagementDoor(world)
    for name in ("management", "monitoring"):
        guest.do("PUT", "user-limits", name, "max-channels", body={"value": 99})
    own = ManagementDoor(world, ("management", "management"))
    mine = [{"user": "management", "value": {"max-channels": 99}}]
    assert own.get("user-limits") == own.get("user-limits", "management") == mine
    assert own.ask("GET", "user-limits", "monitoring")[0] == 404
    named = [each["user"] for each in guest.get("user-limits")]
    assert named == ["management", "monitoring"]


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ("username=management&password=management", 200),
        ("username=untagged&password=untagged", 401),
        ("username=management&password=wrong", 401),
        ("username=nobody&password=x", 401),
        ("username=management", 401),
        ("", 401),
        ("username=" + "x" * 5_000, 401),
        ('{"username": "management", "password": "management"}', 401),
    ],
)
def test_a_form_logs_in_as_in_rabbitmq(world: BrokerProcess, form: str, status: int) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    door = ManagementDoor(world, None)
    answered, _, answer = door.raw("POST", "/login", form.encode(), **kind)
    assert answered == status, answer
    if status == 200:
        assert answer == b'"ok"'


def test_the_same_answer_for_an_unknown_user_and_a_wrong_password(world: BrokerProcess) -> None:
    answers = {
        ManagementDoor(world, user).raw("GET", "/whoami")[2]
        for user in (("guest", "wrong"), ("nobody", "guest"), ("guest", ""))
    }
    assert answers == {b'{"error":"not_authorized","reason":"Login failed"}'}


@pytest.mark.parametrize(
    "header",
    [
        "Basic",
        "Basic !",
        "Basic " + "A" * 5000,
        "Basic Z3Vlc3Q=",
        "Bearer",
        "Bearer x",
        "Digest x",
        "Basic \xff",
    ],
)
def test_a_bad_authorization_is_refused(world: BrokerProcess, header: str) -> None:
    door = ManagementDoor(world, None)
    status, headers, _ = door.raw("GET", "/whoami", Authorization=header)
    assert status == 401
    assert headers["www-authenticate"].startswith("Basic")


def test_the_token_of_the_data_directory_opens_everything_and_is_private(
    world: BrokerProcess,
) -> None:
    door = ManagementDoor(world, None)
    assert (world.data_dir / "management.json").stat().st_mode & 0o777 == 0o600
    status, _, _ = door.raw("GET", "/users", Authorization=f"Bearer {door.token}")
    assert status == 200
    status, _, _ = door.raw(
        "PUT", "/queues/closed/by-token", b"{}", Authorization=f"Bearer {door.token}"
    )
    assert status == 201


def test_a_name_that_another_site_lets_lead_here_is_refused(fresh_broker) -> None:
    world = fresh_broker()  # of many refusals, the log leaves some out
    door = ManagementDoor(world)
    for host in ("evil.example", f"evil.example:{door.address.port}"):
        said = {"Host": host, "Origin": f"http://{host}", "Content-Type": "application/json"}
        for method, path, body in (("GET", "/overview", None), ("PUT", "/vhosts/rebound", b"{}")):
            status, _, answer = door.raw(method, path, body, **said)
            assert (status, b"evil.example" in answer) == (403, True)
    assert door.raw("GET", "/overview", Host="localhost")[0] == 200
    assert door.ask("GET", "vhosts", "rebound")[0] == 404
    assert "evil.example" in world.log_text()


def test_another_site_cannot_make_a_browser_change_something(world: BrokerProcess) -> None:
    door = ManagementDoor(world)
    cross = {"Sec-Fetch-Site": "cross-site"}
    assert door.raw("PUT", "/queues/%2F/forged", b"{}", **cross)[0] == 403
    assert door.raw("GET", "/queues/%2F", **cross)[0] == 200
    assert door.raw("PUT", "/queues/%2F/own", b"{}", **{"Sec-Fetch-Site": "same-origin"})[0] == 201


def test_every_answer_keeps_browsers_from_guessing_and_keeping(world: BrokerProcess) -> None:
    door = ManagementDoor(world)
    for path in ("/whoami", "/nowhere", "/queues", "/queues/%2F/none", "/openapi.json"):
        headers = door.raw("GET", path)[1]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["content-type"].startswith("application/json")


def test_the_openapi_document_names_every_route(world: BrokerProcess) -> None:
    document = ManagementDoor(world, None).get("openapi.json")
    named = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    wanted = {(r.method, "/api" + re.sub(r":[^}]*", "", r.path)) for r in ROUTES}
    assert named == wanted
    ids = [
        each["operationId"] for methods in document["paths"].values() for each in methods.values()
    ]
    assert len(ids) == len(set(ids))


def test_a_path_may_end_with_a_slash(world: BrokerProcess) -> None:
    guest = ManagementDoor(world)
    for path in ("overview", "queues", "vhosts/%2F/permissions", "exchanges/%2F/amq.direct"):
        with_slash, without = (guest.raw("GET", f"/{path}{end}")[0] for end in ("/", ""))
        assert with_slash == without == 200
    assert guest.raw("GET", "/queues/%2F/missing/")[0] == 404


def test_who_makes_a_vhost_may_do_all_in_it(world: BrokerProcess) -> None:
    maker = ManagementDoor(world, ("administrator", "administrator"))
    maker.do("PUT", "vhosts", "own")
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    found = ManagementDoor(world).get("permissions", "own", "administrator")
    assert {key: found[key] for key in everything} == everything
    ManagementDoor(world).do("DELETE", "permissions", "own", "administrator")
    maker.do("PUT", "vhosts", "own", body={"description": "said later"})
    assert ManagementDoor(world).ask("GET", "permissions", "own", "administrator")[0] == 404


@pytest.mark.parametrize("said", [b"", b"GET /api/overview HTTP/1.1\r\nHost: "])
def test_who_asks_nothing_is_cut_off_and_who_asked_is_kept(fresh_broker, said: bytes) -> None:
    door = ManagementDoor(fresh_broker(ROUTELOG_HANDSHAKE_SECONDS="2"))
    where = (door.address.hostname, door.address.port)
    asking = HTTPConnection(*where, timeout=60)
    asking.request("GET", "/api/whoami", headers=door.headers)
    assert asking.getresponse().read()
    with socket.create_connection(where, timeout=60) as silent:
        silent.sendall(said)
        with suppress(ConnectionResetError):
            assert silent.recv(1) == b""
    asking.request("GET", "/api/whoami", headers=door.headers)
    assert asking.getresponse().status == 200
    assert asking.sock is not None
    asking.close()


def test_connections_of_others_are_closed_by_administrators_only(world: BrokerProcess) -> None:
    guest = ManagementDoor(world)
    clients = Clients(world.url)
    clients.connect()
    name = guest.get("connections")[0]["name"]
    for role in ("management", "policymaker", "monitoring"):
        door = ManagementDoor(world, (role, role))
        assert door.ask("DELETE", "connections", name)[0] == 401
        assert door.ask("DELETE", "connections", "username", "guest")[0] == 401
    assert ManagementDoor(world, ("monitoring", "monitoring")).get("connections", name)
    assert [each["name"] for each in guest.get("connections")] == [name]
    monitoring = Clients(f"amqp://monitoring:monitoring@{world.host}:{world.port}/")
    monitoring.connect()
    own = ManagementDoor(world, ("monitoring", "monitoring"))
    own.do("DELETE", "connections", "username", "monitoring")
    wait_until(lambda: [each["name"] for each in guest.get("connections")] == [name])
    administrator = ManagementDoor(world, ("administrator", "administrator"))
    administrator.do("DELETE", "connections", name)
    wait_until(lambda: guest.get("connections") == [])


def test_a_form_of_another_site_changes_nothing(world: BrokerProcess) -> None:
    door = ManagementDoor(world)
    own = f"http://{door.address.netloc}"
    text = {"Content-Type": "text/plain"}
    body = b'{"password": "x", "tags": "administrator"}'
    for headers in (
        {"Origin": "http://evil.example", **text},
        {"Origin": "null", **text},
        {"Origin": own, **text},
        {"Origin": "http://evil.example", "Content-Type": "application/json"},
    ):
        status, _, answer = door.raw("PUT", "/users/eve", body, **headers)
        assert status == 403, (headers, answer)
    assert door.ask("GET", "users", "eve")[0] == 404
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # what curl -d says
    assert door.raw("PUT", "/queues/%2F/by-curl", b"{}", **form)[0] == 201
    as_json = {"Origin": own, "Content-Type": "application/json"}
    assert door.raw("PUT", "/queues/%2F/by-page", b"{}", **as_json)[0] == 201
    assert door.raw("POST", "/definitions", b"users=eve", **form)[0] == 400
