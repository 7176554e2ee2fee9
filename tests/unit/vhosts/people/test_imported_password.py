"""Hashes of RabbitMQ, its documentation's example among them."""

import hashlib
from base64 import b64decode, b64encode

import pytest

from routelog.vhosts.errors import InvalidUser
from routelog.vhosts.people.imported_password import (
    DEFAULT_ALGORITHM,
    hash_fault,
    imported_hash,
    rabbitmq_hash,
    split_imported_hash,
)
from routelog.vhosts.people.password import hash_password, verify_password

SHA512 = "rabbit_password_hashing_sha512"


def made_by_rabbitmq(password: bytes, digest: str = "sha256") -> str:
    salt = b"\x90\x8d\xc6\x0a"
    return b64encode(salt + hashlib.new(digest, salt + password).digest()).decode()


def test_the_example_of_rabbitmqs_documentation_is_verified() -> None:
    kept = imported_hash(DEFAULT_ALGORITHM, "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")
    assert verify_password(kept, b"test12")
    assert not verify_password(kept, b"test13")
    assert not verify_password(kept, b"")


def test_sha512_is_verified_too() -> None:
    kept = imported_hash(SHA512, made_by_rabbitmq(b"secret", "sha512"))
    assert verify_password(kept, b"secret")
    assert not verify_password(kept, b"secreT")


@pytest.mark.parametrize(
    ("algorithm", "encoded", "reason"),
    [
        ("", made_by_rabbitmq(b"x"), "hashing algorithm"),
        ("a:b", made_by_rabbitmq(b"x"), "hashing algorithm"),
        (DEFAULT_ALGORITHM, "x" * 1_028, "longer than 1024"),
        (DEFAULT_ALGORITHM, "***", "not base64"),
        (DEFAULT_ALGORITHM, "é", "not base64"),
    ],
)
def test_what_is_no_hash_is_refused(algorithm: str, encoded: str, reason: str) -> None:
    with pytest.raises(InvalidUser, match=reason):
        imported_hash(algorithm, encoded)


@pytest.mark.parametrize(
    ("algorithm", "encoded", "fault"),
    [
        ("rabbit_password_hashing_md5", made_by_rabbitmq(b"x", "md5"), "hashing algorithm"),
        (SHA512, made_by_rabbitmq(b"x"), "36 bytes, not 68"),
        (DEFAULT_ALGORITHM, made_by_rabbitmq(b"x", "sha512"), "68 bytes, not 36"),
        (DEFAULT_ALGORITHM, "", "0 bytes"),
        (DEFAULT_ALGORITHM, "abcd", "3 bytes"),
    ],
)
def test_a_hash_of_another_kind_is_kept_and_no_password_is_right(
    algorithm: str, encoded: str, fault: str
) -> None:
    kept = imported_hash(algorithm, encoded)
    assert split_imported_hash(kept) == (algorithm, encoded)
    assert fault in hash_fault(kept)
    for password in (b"x", b"", b64decode(encoded), b64decode(encoded)[:4]):
        assert not verify_password(kept, password)


def test_a_hash_that_a_password_can_have_has_no_fault() -> None:
    for kept in (
        imported_hash(DEFAULT_ALGORITHM, made_by_rabbitmq(b"x")),
        imported_hash(SHA512, made_by_rabbitmq(b"x", "sha512")),
        hash_password(b"x"),
        "",
    ):
        assert hash_fault(kept) == ""


def test_a_kept_hash_is_taken_apart_again_and_others_are_not() -> None:
    encoded = made_by_rabbitmq(b"x")
    kept = imported_hash(DEFAULT_ALGORITHM, encoded)
    assert split_imported_hash(kept) == (DEFAULT_ALGORITHM, encoded)
    assert split_imported_hash(hash_password(b"x")) is None
    assert split_imported_hash("") is None


def test_a_hash_that_is_made_here_is_that_of_rabbitmq() -> None:
    salt = b"\x90\x8d\xc6\x0a"
    assert rabbitmq_hash(b"test12", salt + b"more") == made_by_rabbitmq(b"test12")
    assert verify_password(imported_hash(DEFAULT_ALGORITHM, rabbitmq_hash(b"x", salt)), b"x")
