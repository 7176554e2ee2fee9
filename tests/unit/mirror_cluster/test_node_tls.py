"""The certificate of a node: what is wrong with it is known before another node refuses it."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from support.node_certificates import node_files

from routelog.mirror_cluster.node_tls import NodeTls, TlsFiles, TlsUnusable, handshake_failure

AUTHORITY = trustme.CA()


def serial(tls: NodeTls, client: ssl.SSLContext) -> str:
    """Of the certificate that a listener shows to who connects."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    connecting = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    listening = tls.server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for end in (connecting, listening):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return str((connecting.getpeercert() or {})["serialNumber"])


def without_key(files: TlsFiles) -> None:
    files.key.unlink()


def with_another_key(files: TlsFiles) -> None:
    AUTHORITY.issue_cert("b").private_key_pem.write_to_path(str(files.key))


def with_an_encrypted_key(files: TlsFiles) -> None:
    files.key.write_text(
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
        "DEK-Info: AES-128-CBC,00000000000000000000000000000000\n\n"
        "AAAAAAAAAAAAAAAAAAAAAA==\n-----END RSA PRIVATE KEY-----\n"
    )


def without_a_certificate_in_it(files: TlsFiles) -> None:
    files.certificate.write_text("nothing")


def without_authorities_in_it(files: TlsFiles) -> None:
    files.authorities.write_text("")


def with_other_authorities(files: TlsFiles) -> None:
    trustme.CA().cert_pem.write_to_path(str(files.authorities))


def expired(files: TlsFiles) -> None:
    before = datetime.now(UTC) - timedelta(days=1)
    issued = AUTHORITY.issue_cert("127.0.0.1", not_after=before)
    issued.cert_chain_pems[0].write_to_path(str(files.certificate))
    issued.private_key_pem.write_to_path(str(files.key))


def for_another_host(files: TlsFiles) -> None:
    node_files(AUTHORITY, files.key.parent, "127.0.0.2")


@pytest.mark.parametrize(
    ("spoil", "key", "told"),
    [
        (without_key, "key", "No such file or directory"),
        (with_another_key, "key", "it is not the key of cluster_tls_certificate"),
        (with_an_encrypted_key, "key", "it is encrypted; the node has nobody to ask"),
        (without_a_certificate_in_it, "certificate", "there is no certificate in it"),
        (without_authorities_in_it, "authorities", "there is no certificate in it"),
        (with_other_authorities, "certificate", "unable to get local issuer certificate"),
        (expired, "certificate", "certificate has expired"),
        (for_another_host, "certificate", "certificate is not valid for '127.0.0.1'"),
    ],
)
def test_what_cannot_be_used_is_told_by_its_key(
    tmp_path: Path, spoil: Callable[[TlsFiles], None], key: str, told: str
) -> None:
    files = node_files(AUTHORITY, tmp_path)
    tls = NodeTls(files, "127.0.0.1")
    before = tls.client
    spoil(files)
    for load in (lambda: NodeTls(files, "127.0.0.1"), tls.reload):
        with pytest.raises(TlsUnusable) as error:
            load()
        assert str(error.value).startswith(f"cluster_tls_{key}: {getattr(files, key)}: ")
        assert told in str(error.value)
    assert tls.client is before


def test_who_is_dialed_by_nobody_needs_no_name_in_its_certificate(tmp_path: Path) -> None:
    tls = NodeTls(node_files(AUTHORITY, tmp_path, "standby.test"), None)
    assert tls.client.check_hostname


def test_a_renewed_certificate_is_shown_and_new_authorities_are_asked_for(tmp_path: Path) -> None:
    files = node_files(AUTHORITY, tmp_path)
    tls = NodeTls(files, "127.0.0.1")
    first = serial(tls, tls.client)
    client = tls.client
    assert tls.expiries[files.certificate] > datetime.now(UTC)
    node_files(AUTHORITY, tmp_path)
    assert serial(tls, client) == first
    tls.reload()
    assert serial(tls, client) != first
    server = tls.server
    node_files(trustme.CA(), tmp_path)
    tls.reload()
    with pytest.raises(ssl.SSLCertVerificationError):
        serial(tls, client)
    assert serial(tls, tls.client)
    assert tls.server is not server  # with which the client could resume his session


def test_a_failed_handshake_is_told_in_words(tmp_path: Path) -> None:
    ours = NodeTls(node_files(AUTHORITY, tmp_path / "a"), "127.0.0.1")
    theirs = NodeTls(node_files(trustme.CA(), tmp_path / "b"), "127.0.0.1")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    connecting = theirs.client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    listening = ours.server.wrap_bio(to_server, to_client, server_side=True)
    told = []
    for end in (connecting, listening, connecting, listening):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError as error:
            told.append(handshake_failure(error))
    assert told == [
        "its certificate is not accepted: self-signed certificate in certificate chain",
        "it does not accept this node's certificate: tlsv1 alert unknown ca",
    ]
