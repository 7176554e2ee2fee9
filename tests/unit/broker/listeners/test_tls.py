"""Certificates: loaded, chosen by name, and replaced only by ones that can be used."""

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from routelog.broker.listeners.tls import (
    CertificateUnusable,
    TlsCertificates,
    TlsOptions,
    expires_at,
)

AUTHORITY = trustme.CA()


def pem(folder: Path, name: str) -> Path:
    """A file with key and certificate for a server name."""
    file = folder / f"{name.replace('*', 'any')}.pem"
    AUTHORITY.issue_cert(name).private_key_and_cert_chain_pem.write_to_path(str(file))
    return file


def shown(certificates: TlsCertificates, name: str | None) -> str:
    """The server name in the certificate that a client is shown."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    AUTHORITY.configure_trust(client_context)
    client, _ = connected(certificates, client_context, name)
    names: Any = (client.getpeercert() or {})["subjectAltName"]
    return str(names[0][1])


def test_a_client_is_shown_the_certificate_of_the_name_it_asks_for(tmp_path: Path) -> None:
    certificates = TlsCertificates(
        TlsOptions(
            certificate=pem(tmp_path, "mq.test"),
            names={
                "Other.test": pem(tmp_path, "other.test"),
                "*.eu.test": pem(tmp_path, "*.eu.test"),
            },
        )
    )
    assert shown(certificates, "mq.test") == "mq.test"
    assert shown(certificates, "other.test") == "other.test"
    assert shown(certificates, "a.eu.test") == "*.eu.test"
    assert shown(certificates, "a.b.eu.test") == "mq.test"
    assert shown(certificates, "unknown.test") == "mq.test"
    assert shown(certificates, None) == "mq.test"


def test_a_renewed_certificate_is_shown_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    file = pem(tmp_path, "old.test")
    certificates = TlsCertificates(TlsOptions(certificate=file))
    file.write_bytes(pem(tmp_path, "new.test").read_bytes())
    assert shown(certificates, None) == "old.test"
    certificates.reload()
    assert shown(certificates, None) == "new.test"
    file.write_bytes(b"-----BEGIN CERTIFICATE-----\nbroken")
    with pytest.raises(CertificateUnusable, match=r"old\.test\.pem"):
        certificates.reload()
    assert shown(certificates, None) == "new.test"


def test_one_unusable_file_of_a_name_keeps_no_other_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    main, one, other = pem(tmp_path, "mq.test"), pem(tmp_path, "one.test"), pem(tmp_path, "o.test")
    certificates = TlsCertificates(TlsOptions(main, names={"one.test": one, "other.test": other}))
    before = certificates.expiries
    one.write_bytes(b"broken")
    main.write_bytes(pem(tmp_path, "renewed.test").read_bytes())
    other.write_bytes(pem(tmp_path, "other.test").read_bytes())
    certificates.reload()
    assert shown(certificates, "mq.test") == "renewed.test"
    assert shown(certificates, "other.test") == "other.test"
    assert shown(certificates, "one.test") == "one.test"
    assert certificates.expiries[one] == before[one]
    assert "the certificate of a server name is not renewed: TLS certificate" in caplog.text
    one.write_bytes(pem(tmp_path, "new.test").read_bytes())
    certificates.reload()
    assert shown(certificates, "one.test") == "new.test"


def test_a_name_with_an_unusable_file_does_not_go_on_with_earlier_authorities(
    tmp_path: Path,
) -> None:
    authorities, one = tmp_path / "authorities.pem", pem(tmp_path, "one.test")
    AUTHORITY.cert_pem.write_to_path(str(authorities))
    certificates = TlsCertificates(
        TlsOptions(
            pem(tmp_path, "mq.test"),
            authorities=authorities,
            verification="optional",
            names={"one.test": one},
        )
    )
    one.unlink()
    certificates.reload()
    assert shown(certificates, "one.test") == "one.test"
    trustme.CA().cert_pem.write_to_path(str(authorities))
    certificates.reload()
    assert shown(certificates, "one.test") == "mq.test"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(context)
    AUTHORITY.issue_cert("app.test").configure_cert(context)
    context.check_hostname = False
    with pytest.raises(ssl.SSLCertVerificationError):
        connected(certificates, context, "one.test")


def test_a_name_whose_expiry_cannot_be_read_is_unusable(tmp_path: Path) -> None:
    authorities, one = tmp_path / "authorities.pem", pem(tmp_path, "one.test")
    AUTHORITY.cert_pem.write_to_path(str(authorities))
    options = TlsOptions(
        pem(tmp_path, "mq.test"),
        authorities=authorities,
        verification="optional",
        names={"one.test": one},
    )
    certificates = TlsCertificates(options)
    # OpenSSL takes this label, too.
    one.write_bytes(one.read_bytes().replace(b" CERTIFICATE", b" X509 CERTIFICATE"))
    trustme.CA().cert_pem.write_to_path(str(authorities))
    for _ in range(2):
        certificates.reload()
        assert shown(certificates, "one.test") == "mq.test"
        assert one not in certificates.expiries


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["mq.test", "other.test"])
def test_who_is_not_accepted_any_more_cannot_resume_a_session(
    version: ssl.TLSVersion, name: str, tmp_path: Path
) -> None:
    authorities = tmp_path / "authorities.pem"
    AUTHORITY.cert_pem.write_to_path(str(authorities))
    certificates = TlsCertificates(
        TlsOptions(
            pem(tmp_path, "mq.test"),
            authorities=authorities,
            verification="required",
            names={"other.test": pem(tmp_path, "other.test")},
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(context)
    AUTHORITY.issue_cert("app.test").configure_cert(context)
    context.maximum_version = version
    first, _ = connected(certificates, context, name)
    again, _ = connected(certificates, context, name, first.session)
    assert again.session_reused
    trustme.CA().cert_pem.write_to_path(str(authorities))
    certificates.reload()
    with pytest.raises(ssl.SSLCertVerificationError):
        connected(certificates, context, name, again.session)


def connected(
    certificates: TlsCertificates,
    context: ssl.SSLContext,
    name: str | None,
    session: ssl.SSLSession | None = None,
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends behind a handshake and, so that the client has its session, a byte."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname=name, session=session)
    server = certificates.latest().wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    server.write(b"x")
    assert client.read(1) == b"x"
    return client, server


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = pem(tmp_path, "mq.test")
    missing = tmp_path / "missing.pem"
    with pytest.raises(CertificateUnusable, match=r"missing\.pem: No such file"):
        TlsCertificates(TlsOptions(certificate=missing))
    with pytest.raises(CertificateUnusable, match=r"missing\.pem: No such file"):
        TlsCertificates(TlsOptions(certificate=file, names={"a.test": missing}))
    with pytest.raises(CertificateUnusable, match=r"TLS authorities .*missing\.pem"):
        TlsCertificates(TlsOptions(certificate=file, authorities=missing))
    other = pem(tmp_path, "other.test")
    with pytest.raises(CertificateUnusable, match="KEY_VALUES_MISMATCH"):
        TlsCertificates(TlsOptions(certificate=file, key=other))


def test_an_encrypted_key_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as serial

    issued = AUTHORITY.issue_cert("mq.test")
    key = serial.load_pem_private_key(issued.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(
        serial.Encoding.PEM,
        serial.PrivateFormat.PKCS8,
        serial.BestAvailableEncryption(b"secret"),
    )
    (tmp_path / "key.pem").write_bytes(encrypted)
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    with pytest.raises(CertificateUnusable, match="the key is encrypted"):
        TlsCertificates(TlsOptions(certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem"))


def test_versions_below_the_oldest_are_refused(tmp_path: Path) -> None:
    file = pem(tmp_path, "mq.test")
    assert TlsCertificates(TlsOptions(file)).latest().minimum_version == ssl.TLSVersion.TLSv1_2
    newest = TlsCertificates(TlsOptions(file, version_min="1.3"))
    assert newest.latest().minimum_version == ssl.TLSVersion.TLSv1_3


def test_no_suite_is_without_authentication_of_what_it_encrypts(tmp_path: Path) -> None:
    file = pem(tmp_path, "mq.test")
    suites = [suite["name"] for suite in TlsCertificates(TlsOptions(file)).latest().get_ciphers()]
    assert suites
    assert all("GCM" in name or "CHACHA20" in name for name in suites), suites
    assert any(name.startswith("ECDHE-") for name in suites)  # of TLS 1.2


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
