"""Tests of the suites that fail for reasons that are not the broker's; docs/interop.md tells the same.

Patterns of `fnmatch` for `class::test` as in pytest's report, by suite.
"""

from __future__ import annotations

from collections.abc import Mapping

_INTERNET = "talks to tls-v1-2.badssl.com: needs the internet"
_SAME = "fails on RabbitMQ 3.10 as well, with the same assertion"
_RACE = "forgets what a signal told it when the worker is quick; on RabbitMQ 3.10 as well"

KNOWN_FAILURES: Mapping[str, Mapping[str, str]] = {
    "amqp": {
        "t.integration.test_rmq::test_tls_default_certs": _INTERNET,
        "t.integration.test_rmq::test_tls_no_default_certs_fails": _INTERNET,
    },
    "celery": {
        "t.integration.test_redis_backend::test_pubsub_subscribe_churn_while_draining": _SAME,
        "t.integration.test_redis_backend::test_pubsub_reentrant_cancel_from_finalizer": _SAME,
        "t.integration.test_tasks.test_trace_log_arguments::test_task_*": _SAME,
    },
    "celery-rpc": {
        "t.integration.test_tasks.test_tasks::test_retry": _SAME,
        "t.integration.test_tasks.test_task_replacement::test_replaced_task_nesting_level_0": _RACE,
        "t.integration.test_tasks.test_trace_log_arguments::test_task_*": _SAME,
    },
}
