"""What the tags and permissions of a caller open."""

import pytest

from routelog.management.calls.caller import Caller, Need
from routelog.vhosts import AccessRefused, Permission, PermissionBook, ResourceKind, Verb


@pytest.mark.parametrize(
    ("tag", "needs"),
    [
        ("", []),
        ("unknown", []),
        ("management", [Need.MANAGEMENT]),
        ("policymaker", [Need.MANAGEMENT, Need.POLICYMAKER]),
        ("monitoring", [Need.MANAGEMENT, Need.MONITORING]),
        ("administrator", [Need.MANAGEMENT, Need.POLICYMAKER, Need.MONITORING, Need.ADMINISTRATOR]),
    ],
)
def test_a_tag_opens_what_rabbitmq_says(tag: str, needs: list[Need]) -> None:
    caller = Caller("u", (tag,), PermissionBook())
    assert [need for need in Need if caller.has(need)] == [Need.LOGIN, *needs]


def test_this_machines_command_line_may_do_everything() -> None:
    caller = Caller("", (), PermissionBook(), is_local=True)
    assert all(map(caller.has, Need))
    assert caller.enters("v")
    assert (caller.user, caller.actor_name) == (None, "(command line)")
    caller.authorize("v", ResourceKind.QUEUE, "q", Verb.CONFIGURE)
    caller.authorize_topic("v", "x", Verb.READ, "k")


def test_a_user_enters_where_he_has_a_permission_and_knows_himself() -> None:
    permissions = PermissionBook()
    permissions.put("u", "v", Permission("^a", "", ""))
    user = Caller("u", ("management",), permissions)
    assert (user.enters("v"), user.enters("w"), user.sees("w"), user.knows("w")) == (
        True,
        *[False] * 3,
    )
    assert (user.knows_user("u"), user.knows_user("other")) == (True, False)
    user.authorize("v", ResourceKind.QUEUE, "a", Verb.CONFIGURE)
    with pytest.raises(AccessRefused):
        user.authorize("v", ResourceKind.QUEUE, "b", Verb.CONFIGURE)
    monitor = Caller("m", ("monitoring",), permissions)
    assert (monitor.knows("v"), monitor.sees("v")) == (True, False)
    assert Caller("r", ("administrator",), permissions).sees("v")


def test_a_token_for_logs_enters_its_vhost_only() -> None:
    permissions = PermissionBook()
    for vhost in ("v", "w"):
        permissions.put("u", vhost, Permission("", "", ".*"))
    caller = Caller("u", (), permissions, only_vhost="v")
    assert (caller.enters("v"), caller.enters("w")) == (True, False)
