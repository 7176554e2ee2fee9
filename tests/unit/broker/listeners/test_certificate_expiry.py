"""When certificates expire, told by their bytes."""

from datetime import UTC, datetime

import pytest
import trustme

from routelog.broker.listeners.certificate_expiry import expires_at

AUTHORITY = trustme.CA()


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2031, 4, 5, 6, 7, 8, tzinfo=UTC),
        datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2050, 1, 1, tzinfo=UTC),  # from here on with four digits
        datetime(2051, 2, 3, tzinfo=UTC),
    ],
)
def test_the_end_is_that_of_the_first_certificate(moment: datetime) -> None:
    leaf = AUTHORITY.issue_cert("a.test", not_after=moment)
    pem = leaf.private_key_and_cert_chain_pem.bytes().decode() + AUTHORITY.cert_pem.bytes().decode()
    assert expires_at(pem) == moment


def test_anything_else_is_no_certificate() -> None:
    with pytest.raises(ValueError, match="no certificate"):
        expires_at("-----BEGIN PRIVATE KEY-----")


def test_a_certificate_that_is_cut_off_is_none() -> None:
    lines = AUTHORITY.cert_pem.bytes().decode().splitlines()
    with pytest.raises(ValueError, match="cut off"):
        expires_at("\n".join([lines[0], *lines[1:3], lines[-1]]))
