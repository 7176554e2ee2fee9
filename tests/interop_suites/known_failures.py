"""Tests of the suites that fail for reasons that are not the broker's: as in docs/internals/interop.md.

Patterns of `fnmatch` for names of tests as pytest has them, by suite.
"""

from __future__ import annotations

from collections.abc import Mapping

_INTERNET = "talks to tls-v1-2.badssl.com: needs the internet"
_SAME = "fails on RabbitMQ 3.10 as well, with the same assertion"
_RACE = "forgets what a signal told it when the worker is quick; on RabbitMQ 3.10 as well"
_RMQ = "t/integration/test_rmq.py"
_REDIS = "t/integration/test_redis_backend.py"
_TASKS = "t/integration/test_tasks.py"

KNOWN_FAILURES: Mapping[str, Mapping[str, str]] = {
    "amqp": {
        f"{_RMQ}::test_tls_default_certs": _INTERNET,
        f"{_RMQ}::test_tls_no_default_certs_fails": _INTERNET,
    },
    "celery": {
        f"{_REDIS}::test_pubsub_subscribe_churn_while_draining": _SAME,
        f"{_REDIS}::test_pubsub_reentrant_cancel_from_finalizer": _SAME,
        f"{_TASKS}::test_task_replacement::test_replaced_task_nesting_level_0": _RACE,
        f"{_TASKS}::test_trace_log_arguments::test_task_*": _SAME,
    },
    "celery-rpc": {
        f"{_TASKS}::test_tasks::test_retry": _SAME,
        f"{_TASKS}::test_task_replacement::test_replaced_task_nesting_level_0": _RACE,
        f"{_TASKS}::test_trace_log_arguments::test_task_*": _SAME,
    },
}
