"""Audit lines in the log of a node: who did what, from where, and why it was refused.

Events come from the event feed, refusals from the protocols. A line is a title, and
fields::

    queue deleted: name='orders' vhost='/' by='ann' from='10.0.0.7:41234' via='AMQP 0-9-1'

The JSON form of the log has the same fields as keys, and the event's own name as `event`.
"""

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from routelog.broker.process.logs import event_extra
from routelog.log_backend import CallLater, Timer
from routelog.vhosts import current_actor

log = logging.getLogger(__name__)

DEBUG, INFO, WARNING = logging.DEBUG, logging.INFO, logging.WARNING

# A client in a loop must not fill the disk: at most 20 MB a day of refusals and 200 MB of other lines, for each
# user and kind of event. A deployment that declares some hundred queues still gets a line each.
WINDOW_SECONDS = 60.0
REFUSALS_MAX = 60  # of a window
LINES_MAX = 600
VALUE_CHARACTERS_MAX = 512  # of a field that a peer chose

TITLES: Mapping[str, tuple[int, str]] = {
    "connection.accepted": (DEBUG, "connection accepted"),
    "connection.dropped": (DEBUG, "connection ended before it was in a virtual host"),
    "connection.created": (INFO, "connection opened"),
    "connection.closed": (INFO, "connection closed"),
    "connection.unopened": (WARNING, "connection dropped before its first AMQP byte"),
    "connection.refused": (WARNING, "connection refused"),
    "channel.refused": (WARNING, "channel closed with an error"),
    "delivery.timeout": (WARNING, "deliveries not settled in time"),
    "user.authentication.success": (DEBUG, "login"),
    "user.authentication.failure": (WARNING, "login refused"),
    "certificate.unknown": (INFO, "no user is called as a client's certificate says"),
    "http.refused": (WARNING, "HTTP request refused"),
    "http.malformed": (WARNING, "malformed HTTP request"),
    "http.traffic": (DEBUG, "HTTP request carried out"),
    "http.changed": (INFO, "HTTP request carried out"),
    "definitions.skipped": (INFO, "definitions skipped"),
    "definitions.imported": (INFO, "definitions imported"),
    "definitions.failed": (WARNING, "definitions imported in part"),
    "definitions.kept": (WARNING, "definitions kept without effect"),
    "vhost.created": (INFO, "virtual host created"),
    "vhost.deleted": (INFO, "virtual host deleted"),
    "user.created": (INFO, "user created"),
    "user.deleted": (INFO, "user deleted"),
    "user.password.changed": (INFO, "password changed"),
    "user.tags.set": (INFO, "tags of user set"),
    "permission.created": (INFO, "permission set"),
    "permission.deleted": (INFO, "permission cleared"),
    "policy.set": (INFO, "policy set"),
    "policy.cleared": (INFO, "policy cleared"),
    "queue.created": (INFO, "queue created"),
    "queue.deleted": (INFO, "queue deleted"),
    "exchange.created": (INFO, "exchange created"),
    "exchange.deleted": (INFO, "exchange deleted"),
    "binding.created": (DEBUG, "binding created"),
    "binding.deleted": (DEBUG, "binding deleted"),
    "messages.moved": (INFO, "messages moved"),
    "messages.copied": (INFO, "messages copied"),
    "messages.deleted": (INFO, "messages deleted"),
    "alarm.set": (WARNING, "alarm set"),
    "alarm.cleared": (INFO, "alarm cleared"),
}

# Arguments are the client's own, and may be long; the node and the time are those of the line.
_LEFT_OUT = frozenset(("arguments", "node", "timestamp_in_ms"))


class _Window:
    __slots__ = ("left_out", "lines", "timer")

    def __init__(self, timer: Timer) -> None:
        self.lines = self.left_out = 0
        self.timer = timer


class EventLog:
    """Writes the lines of events; of very many similar ones it writes only the number.

    Args:
        call_later: seconds, and what to call then.
    """

    def __init__(self, call_later: CallLater) -> None:
        self._call_later = call_later
        self._windows: dict[tuple[str, str], _Window] = {}  # by event and user

    def write(self, key: str, fields: Mapping[str, Any]) -> None:
        """Write the line of an event."""
        level, title = TITLES.get(key, (INFO, key))
        if level is DEBUG and not log.isEnabledFor(DEBUG):
            return
        actor = current_actor()
        if level is INFO and (_is_passing(key, fields) or (actor and actor.importing)):
            level = DEBUG
        if actor is not None and level > DEBUG:
            actor.told = True
        if not log.isEnabledFor(level):
            return
        # Clients without a login share one window: they choose their names and addresses.
        user = fields.get("user") or (actor.user if actor is not None else "")
        if self._is_left_out((key, user), level):
            return
        shown = dict(_shown(fields))
        if actor is not None:
            acted = {"by": actor.user, "from": actor.address, "via": actor.door}
            shown |= dict(_shown(acted))
        _log(level, title, key, shown)

    def _is_left_out(self, which: tuple[str, str], level: int) -> bool:
        window = self._windows.get(which)
        if window is None:
            timer = self._call_later(WINDOW_SECONDS, partial(self._end_window, which))
            window = self._windows[which] = _Window(timer)
        if window.lines >= (REFUSALS_MAX if level == WARNING else LINES_MAX):
            window.left_out += 1
            return True
        window.lines += 1
        return False

    def _end_window(self, which: tuple[str, str]) -> None:
        window = self._windows.pop(which)
        window.timer.cancel()
        if window.left_out:
            key, user = which
            level, title = TITLES.get(key, (INFO, key))
            shown: dict[str, Any] = {"left_out": window.left_out}
            if user:
                shown["user"] = user
            _log(level, f"{title}, and more like it", key, shown)

    def stop(self) -> None:
        """Write the numbers of lines left out."""
        for which in list(self._windows):
            self._end_window(which)


def _is_passing(key: str, fields: Mapping[str, Any]) -> bool:
    # Exclusive and auto-delete queues and exchanges are many, and of no interest to operators.
    if not key.startswith(("queue.", "exchange.")):
        return False
    passing = fields.get("exclusive") or fields.get("auto_delete")
    return bool(passing) or not fields.get("durable", True)


def _shown(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if name in _LEFT_OUT or value is None or value is False or value in ("", [], {}):
            continue
        if isinstance(value, (bool, int, float)):
            yield name, value
            continue
        text = value if isinstance(value, str) else str(value)
        if len(text) > VALUE_CHARACTERS_MAX:
            excess = len(text) - VALUE_CHARACTERS_MAX
            text = f"{text[:VALUE_CHARACTERS_MAX]}… ({excess} characters more)"
        yield name, text


def _log(level: int, title: str, key: str, shown: Mapping[str, Any]) -> None:
    # repr: no value can imitate another field or another line.
    said = " ".join(f"{name}={value!r}" for name, value in shown.items())
    log.log(level, "%s: %s", title, said, extra=event_extra(key, shown))
