"""Certificates that a secret is enough to make: who has it is accepted, by hosts and in both directions."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509

from routelog.mirror_cluster.node_tls import tls_context
from routelog.mirror_cluster.secret_authority import SecretAuthority

SECRET = b"a secret of this test"


def server(authority: SecretAuthority, folder: Path) -> ssl.SSLContext:
    """A member of etcd, as far as TLS goes."""
    own = folder / "own.pem"
    own.write_bytes(authority.own)
    context = tls_context(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=authority.certificate.decode())
    context.load_cert_chain(own)
    return context


def shake_hands(listening: ssl.SSLContext, dialing: ssl.SSLContext, host: str) -> None:
    """Both ends accept each other, or it raises `SSLError`."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        dialing.wrap_bio(back, there, server_hostname=host),
        listening.wrap_bio(there, back, server_side=True),
    )
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("host", ["10.0.0.1", "::1", "a_node.test"])
def test_who_knows_the_secret_is_accepted_on_both_sides(tmp_path: Path, host: str) -> None:
    member = SecretAuthority(SECRET, "orders", host)
    asking = SecretAuthority(SECRET, "orders", "10.0.0.2")
    shake_hands(server(member, tmp_path), asking.client, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server(member, tmp_path), asking.client, "elsewhere.test")


@pytest.mark.parametrize(("secret", "name"), [(b"another secret, longer", "orders"), (SECRET, "x")])
def test_another_secret_or_cluster_is_accepted_by_nobody(
    tmp_path: Path, secret: bytes, name: str
) -> None:
    member = SecretAuthority(SECRET, "orders", "10.0.0.1")
    stranger = SecretAuthority(secret, name, "10.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server(member, tmp_path), stranger.client, "10.0.0.1")
    stranger.client.check_hostname, stranger.client.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(ssl.SSLError):
        shake_hands(server(member, tmp_path), stranger.client, "10.0.0.1")


def test_no_clock_is_wrong_enough_for_a_certificate_to_have_ended() -> None:
    authority = SecretAuthority(SECRET, "orders", "10.0.0.1")
    for pem in (authority.certificate, authority.own):
        certificate = x509.load_pem_x509_certificate(pem)
        assert certificate.not_valid_before_utc.year == 1970
        assert certificate.not_valid_after_utc.year == 9999


def test_the_key_of_a_secret_stays_the_same_in_later_versions() -> None:
    certificate = x509.load_pem_x509_certificate(
        SecretAuthority(SECRET, "orders", "10.0.0.1").certificate
    )
    identifier = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    assert identifier.value.digest.hex() == "4b38588e5056e3914fdba9c1ed350e943364d1a7"


def test_the_key_of_the_authority_is_in_nothing_that_is_stored_or_shown() -> None:
    authority = SecretAuthority(SECRET, "orders", "10.0.0.1")
    assert b"PRIVATE KEY" not in authority.certificate
    assert authority.own.count(b"BEGIN PRIVATE KEY") == 1
    own = x509.load_pem_x509_certificate(authority.own)
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    assert own.public_key() != issuer.public_key()
