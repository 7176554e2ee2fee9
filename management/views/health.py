"""What every health check says when the log has failed: nothing else that is well helps a publisher then."""

from collections.abc import Awaitable, Callable, Iterable
from functools import wraps

from routelog.management.calls.answer import Answer, Row, Value
from routelog.management.calls.call import Call

Check = Callable[[Call], Answer | Awaitable[Answer]]

LOG_ALARM = "log"  # the resource of the alarm that only a restart ends


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


def failed(reason: str, **more: object) -> Value:
    """The answer of a check that finds something wrong, with what it looked at."""
    return Value({"status": "failed", "reason": reason, **more}, 503)


def alarm_rows(call: Call, alarms: Iterable[str]) -> list[Row]:
    """Alarms of this node as RabbitMQ tells of them."""
    return [{"node": call.broker.node.name, "resource": alarm} for alarm in alarms]
