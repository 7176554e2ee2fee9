"""An error of a call is raised again by its name, with its text; a fault of the leader says nothing."""

import logging
from typing import Any

import msgspec
import pytest

from routelog.exchanges import ExchangeInUse, QueueNotFound
from routelog.log_backend import JournalFailed, MetadataUnavailable
from routelog.vhosts import InvalidDefinition, QueueLocked, QueueQuarantined
from routelog.vhosts.sessions.session_errors import FAULT, decode_error, encode_error
from routelog.vhosts.sessions.session_message import BadSessionMessage


def passed(error: BaseException) -> Exception:
    return decode_error(msgspec.msgpack.decode(encode_error(error)))


@pytest.mark.parametrize(
    "error",
    [
        QueueNotFound("q", "/"),
        ExchangeInUse("x", "/"),
        QueueLocked("q", "/"),
        QueueQuarantined("q", "/", 17),
        InvalidDefinition("one", "two"),
        MetadataUnavailable("closed"),
        JournalFailed(OSError("full")),
    ],
)
def test_an_error_is_raised_again(error: Exception) -> None:
    raised = passed(error)
    assert type(raised) is type(error)
    assert str(raised) == str(error)


def test_attributes_pass() -> None:
    quarantined = passed(QueueQuarantined("q", "/", 17))
    assert isinstance(quarantined, QueueQuarantined)
    assert (quarantined.name, quarantined.offset) == ("q", 17)


class Unknown(Exception):
    """Of no class that passes."""


class LookAlike(QueueNotFound):
    """Has the name of one that passes."""


LookAlike.__name__ = "QueueNotFound"


@pytest.mark.parametrize("error", [Unknown("secret"), KeyError("secret"), LookAlike("secret", "/")])
def test_a_fault_of_the_leader_is_logged_there(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        raised = passed(error)
    assert type(raised) is RuntimeError
    assert str(raised) == FAULT
    assert "secret" in caplog.text


def test_a_class_of_another_version_keeps_its_text() -> None:
    raised = decode_error(["NewError", "why", {"part": 1}])
    assert type(raised) is RuntimeError
    assert str(raised) == "why"


@pytest.mark.parametrize(
    "content", [None, 7, [], ["QueueNotFound"], [1, 2, {}], [["x"], "text", {}], ["X", "text", []]]
)
def test_what_is_no_error_is_refused(content: Any) -> None:
    with pytest.raises(BadSessionMessage, match=r"an error that is none"):
        decode_error(content)
