"""TLS between nodes, and with etcd: each end has a certificate, and asks for that of the other one.

Whoever connects checks that the certificate is for the host that it has dialed, and both that it is signed by
the authorities of all nodes. Who the other end is, beyond that, is said by its introduction.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ALL_OR_NONE = "all nodes have a cluster_tls_certificate, or none"

_WORDS = {
    "KEY_VALUES_MISMATCH": "it is not the key of cluster_tls_certificate",
    "NO_CERTIFICATE_OR_CRL_FOUND": "there is no certificate in it",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": f"it shows no certificate: {ALL_OR_NONE}",
    "WRONG_VERSION_NUMBER": f"it does not speak TLS: {ALL_OR_NONE}",
}


class TlsUnusable(ValueError):
    """A file cannot be used; the text begins with the key that names it."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the node's certificate with its chain, its key, and who signs those of all nodes."""

    certificate: Path
    key: Path
    authorities: Path


class NodeTls:
    """Contexts of a node, loaded anew while it runs.

    Attributes:
        server: for a handshake that begins; no session is resumed that an earlier one began.
        client: for who connects.
        advice: beside what is said when one end does not accept the other: nothing.
        expiries: when the certificate expires, by file.

    Args:
        host: where other nodes dial this one; None: that is not known.

    Raises:
        TlsUnusable: one of the files, or the certificate is not one that other nodes accept.
    """

    advice = ""

    def __init__(self, files: TlsFiles, host: str | None) -> None:
        self.files = files
        self.server: ssl.SSLContext
        self.client: ssl.SSLContext
        self.expiries: Mapping[Path, datetime]
        self._host = host
        self.reload()

    def reload(self) -> None:
        """Load the files again, for new connections; those that are there stay.

        Raises:
            TlsUnusable: as at the beginning; nothing has changed.
        """
        files = self.files
        server = _context(files, ssl.PROTOCOL_TLS_SERVER)
        client = _context(files, ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = self._host is not None
        try:
            expiry = _accepted_until(server, client, self._host)
        except ssl.SSLError as error:
            where = (
                f"cluster_tls_certificate: {files.certificate}: not accepted by this node itself"
            )
            raise TlsUnusable(f"{where}: {described(error)}") from None
        client.check_hostname = True
        self.server, self.client = server, client
        self.expiries = {files.certificate: expiry}


def handshake_failure(error: ssl.SSLError) -> str:
    """Why there is no connection with another node, for the log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if "ALERT" in (error.reason or ""):
        return f"it does not accept this node's certificate: {described(error)}"
    return described(error)


def described(error: Exception) -> str:
    """What OpenSSL or the system says of a file or a handshake, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "no PEM that OpenSSL can read"
        return _WORDS.get(reason, reason.replace("_", " ").lower())
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def tls_context(protocol: int) -> ssl.SSLContext:
    """A context without certificates, that wants one of the other end."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _context(files: TlsFiles, protocol: int) -> ssl.SSLContext:
    context = tls_context(protocol)
    loads: tuple[tuple[str, Path, Callable[[], None]], ...] = (
        (
            "cluster_tls_authorities",
            files.authorities,
            lambda: context.load_verify_locations(files.authorities),
        ),
        (  # OpenSSL does not say which of two files is at fault, so that this one is read alone first
            "cluster_tls_certificate",
            files.certificate,
            lambda: ssl.SSLContext(protocol).load_verify_locations(files.certificate),
        ),
        (
            "cluster_tls_key",
            files.key,
            lambda: context.load_cert_chain(files.certificate, files.key, _no_password),
        ),
    )
    for key, file, load in loads:
        try:
            load()
        except (OSError, ValueError) as error:
            raise TlsUnusable(f"{key}: {file}: {described(error)}") from None
    return context


def _accepted_until(server: ssl.SSLContext, client: ssl.SSLContext, host: str | None) -> datetime:
    """Shake hands with oneself: other nodes will say the same of the certificate, in either direction.

    Returns:
        When it expires.

    Raises:
        ssl.SSLError: it is not accepted.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    connecting = client.wrap_bio(to_client, to_server, server_hostname=host)
    listening = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):  # flights of a handshake, from each end
        for end in (connecting, listening):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = connecting.getpeercert()
    assert shown is not None, "it is verified"
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(shown["notAfter"])), UTC)


def _no_password() -> str:
    # Otherwise OpenSSL would ask at the terminal, and the node would wait for an answer.
    raise ValueError("it is encrypted; the node has nobody to ask for its password")
