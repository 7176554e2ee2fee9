"""Every refusal of the lower packages has a status."""

import inspect
from collections.abc import Iterator

import pytest

from routelog import exchanges, log_backend, vhosts
from routelog.management.calls.failures import (
    REASON_CHARACTERS_MAX,
    REFUSALS,
    Refused,
    not_found,
    refused,
)

# What no request over HTTP raises, with the reason.
NOT_OVER_HTTP = {
    vhosts.BadPattern: "told where the pattern is read",
    vhosts.OutOfTime: "told where the pattern is matched",
    vhosts.AuthenticationRefused: "a failed login is answered where it is noticed",
    vhosts.ConnectionLimitReached: "of AMQP connections",
    vhosts.UserConnectionLimitReached: "of AMQP connections",
    vhosts.UserChannelLimitReached: "of AMQP connections",
    vhosts.ConsumptionRefused: "nobody consumes over HTTP",
    vhosts.FilterRefused: "nobody consumes over HTTP",
    vhosts.PublishRefused: "a nack, which nobody waits for over HTTP",
    vhosts.UserExists: "PUT replaces",
    vhosts.SessionLost: "the node that leads answers",
    vhosts.BadSessionMessage: "of another node: its session ends",
    vhosts.AnswerFailed: "of another node: told to the one that leads",
    vhosts.TransactionRefused: "there are no transactions over HTTP",
}


def errors() -> Iterator[type[Exception]]:
    for package in (vhosts, exchanges):
        for _, found in inspect.getmembers(package, inspect.isclass):
            if issubclass(found, Exception):
                yield found


@pytest.mark.parametrize("error", list(errors()), ids=lambda error: error.__name__)
def test_an_error_that_a_request_can_cause_has_a_status(error: type[Exception]) -> None:
    known = any(kind in REFUSALS for kind in error.__mro__)
    assert known != (error in NOT_OVER_HTTP)


def test_what_is_missing_has_rabbitmqs_status_and_name_and_is_named() -> None:
    answer = refused(vhosts.UserNotFound("u"))
    assert answer is not None
    assert (answer.status, answer.error, answer.reason) == (404, "Object Not Found", "no user 'u'")
    answer = not_found("policy", "p", "/")
    assert (answer.status, answer.error) == (404, "Object Not Found")
    assert answer.reason == "no policy 'p' in vhost '/'"
    answer = refused(exchanges.QueueNotFound("q", "/"))
    assert answer is not None
    assert (answer.status, answer.error) == (404, "not_found")


def test_our_own_faults_are_not_told_as_the_callers() -> None:
    assert refused(ValueError("ours")) is None
    answer = refused(log_backend.MetadataUnavailable("the disk is full"))
    assert answer is not None
    assert answer.status == 503


def test_a_reason_is_not_longer_than_its_limit() -> None:
    assert len(Refused(400, "bad_request", "x" * 10_000).reason) == REASON_CHARACTERS_MAX
