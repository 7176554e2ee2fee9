"""The integration suites of clients, as their source distributions ship them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suite:
    """One run of the tests of one distribution.

    Attributes:
        name: by which `make interop` knows it.
        distribution, version: on PyPI.
        tests: paths below the distribution's folder.
        ignored: of these, what needs services other than a broker, with the reason.
        environment: variables that tell the tests where the broker is; `{host}`, `{port}`, `{tls_port}` and
            `{redis_port}` are filled in.
        opening: tests behind which others may rely on what they have started; a test alone comes behind them.
    """

    name: str
    distribution: str
    version: str
    tests: tuple[str, ...]
    environment: Mapping[str, str]
    ignored: Mapping[str, str] = field(default_factory=dict)
    opening: tuple[str, ...] = ()


_RABBITMQ = {
    "RABBITMQ_HOST": "{host}",
    "RABBITMQ_5672_TCP": "{port}",
    "RABBITMQ_5671_TCP": "{tls_port}",
}
_CELERY = {
    "TEST_BROKER": "pyamqp://guest:guest@{host}:{port}//",
    "REDIS_HOST": "localhost",
    "REDIS_PORT": "{redis_port}",
}
# The worker of the session begins with the first test that asks for it; not all that need it do.
_WORKER = ("t/integration/test_tasks.py::test_tasks::test_basic_task",)
_AZURE = {"t/integration/test_backend.py": "needs an account of Azure's blob storage"}

SUITES = (
    Suite("amqp", "amqp", "5.4.2", ("t/integration",), _RABBITMQ),
    Suite("kombu", "kombu", "5.7.0", ("t/integration/test_py_amqp.py",), _RABBITMQ),
    Suite(
        "celery",
        "celery",
        "5.7.0",
        ("t/integration",),
        {**_CELERY, "TEST_BACKEND": "redis://localhost:{redis_port}/0"},
        _AZURE,
        _WORKER,
    ),
    Suite(
        "celery-rpc",
        "celery",
        "5.7.0",
        ("t/integration",),
        {**_CELERY, "TEST_BACKEND": "rpc://"},
        {**_AZURE, "t/integration/test_redis_backend.py": "is about results in Redis"},
        _WORKER,
    ),
)
