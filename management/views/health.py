"""What every health check says when the log has failed: nothing else that is well helps a publisher then."""

from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Any, Literal

import msgspec

from routelog.management.calls.answer import Answer, Value
from routelog.management.calls.call import Call

Check = Callable[[Call], Answer | Awaitable[Answer]]

LOG_ALARM = "log"  # the resource of the alarm that only a restart ends


class Healthy(msgspec.Struct, kw_only=True):
    """All is well; what was asked for comes along."""

    status: Literal["ok"]
    reason: str | msgspec.UnsetType = msgspec.UNSET
    port: int | msgspec.UnsetType = msgspec.UNSET
    protocol: str | msgspec.UnsetType = msgspec.UNSET


class Alarm(msgspec.Struct):
    """What publishers wait for."""

    node: str
    resource: str


class Unhealthy(msgspec.Struct, kw_only=True):
    """What is wrong; the rest depends on the check."""

    status: Literal["failed"]
    reason: str
    alarms: list[Alarm] | msgspec.UnsetType = msgspec.UNSET
    expired: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    queues: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    missing: int | str | msgspec.UnsetType = msgspec.UNSET
    ports: list[int] | msgspec.UnsetType = msgspec.UNSET
    protocols: list[str] | msgspec.UnsetType = msgspec.UNSET


def unless_log_failed(check: Check) -> Check:
    """A health check that fails when the log cannot be written, whatever it looks at."""

    @wraps(check)
    def checked(call: Call) -> Answer | Awaitable[Answer]:
        failure = call.broker.log_failure()
        if not failure:
            return check(call)
        reason = f"{failure}; this node accepts no more writes until it is started again"
        return failed(reason, alarms=alarm_rows(call, [LOG_ALARM, *call.broker.alarms()]))

    return checked


def failed(reason: str, **more: Any) -> Value:
    """The answer of a check that finds something wrong, with what it looked at."""
    return Value(Unhealthy(status="failed", reason=reason, **more), 503)


def alarm_rows(call: Call, alarms: Iterable[str]) -> list[Alarm]:
    """Alarms of this node as RabbitMQ tells of them."""
    return [Alarm(call.broker.node.name, alarm) for alarm in alarms]
