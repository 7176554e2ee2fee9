"""Tests of the suites that fail for reasons that are not the broker's; docs/interop.md tells the same.

Patterns of `fnmatch` for `class::test` as in pytest's report, by suite.
"""

from __future__ import annotations

from collections.abc import Mapping

_INTERNET = "talks to tls-v1-2.badssl.com: needs the internet"

KNOWN_FAILURES: Mapping[str, Mapping[str, str]] = {
    "amqp": {
        "t.integration.test_rmq::test_tls_default_certs": _INTERNET,
        "t.integration.test_rmq::test_tls_no_default_certs_fails": _INTERNET,
    },
}
