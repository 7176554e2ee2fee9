"""TLS of listeners: the certificate by server name, verification of client certificates, and when a
certificate expires: Python's ssl tells that only of the valid certificate of a peer.

```
Certificate   SEQUENCE  TBSCertificate  SEQUENCE  [0] version (may be left out)  serial  algorithm  issuer
                                                  validity  SEQUENCE  notBefore  notAfter
```

Source: RFC 5280, section 4.1; the encoding is DER, and a time is YYMMDDHHMMSSZ or YYYYMMDDHHMMSSZ.
"""

import logging
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from routelog.log_backend import others_may_read, read_small

log = logging.getLogger(__name__)

FILE_BYTES_MAX = 1_048_576  # the part of a file that is searched, or compared with what it was

Verification = Literal["none", "optional", "required"]

_VERIFY_MODES = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
# Of TLS 1.2: Python's own without the suites in CBC mode, which have let plain text be guessed (Lucky 13).
_CIPHERS = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:DHE+AESGCM:DHE+CHACHA20:!aNULL:!aDSS"
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class CertificateUnusable(ValueError):
    """A certificate, key or authority cannot be loaded; names the file."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The options of the operator.

    Attributes:
        certificate: PEM, the chain, leaf first.
        key: PEM; None when it is in the certificate's file.
        authorities: PEM of the authorities for clients' certificates.
        verification: whether clients must, may or need not show a certificate.
        names: certificates (PEM, with their key) for other server names; `*.example.com` is one label.
        version_min: "1.2" or "1.3".
    """

    certificate: Path
    key: Path | None = None
    authorities: Path | None = None
    verification: Verification = "none"
    names: Mapping[str, Path] = field(default_factory=dict)
    version_min: str = "1.2"


class TlsCertificates:
    """Contexts by server name, loaded anew while the broker runs.

    Attributes:
        expiries: expiry of the certificates, by file.
    """

    def __init__(self, options: TlsOptions) -> None:
        """Load them.

        Raises:
            CertificateUnusable: one of the files.
        """
        self._options = options
        self._authorities = b""
        self._named: dict[str, ssl.SSLContext] = {}
        self.expiries: dict[Path, datetime] = {}
        for unusable in self._load():
            raise unusable

    def latest(self) -> ssl.SSLContext:
        """The context of a handshake that begins, which replaces it by that of the server name.

        Each one has keys and sessions of its own: a client who was accepted by the authorities of an
        earlier one, or before his certificate expired, cannot resume his session, and is verified again.
        """
        return self._default

    def reload(self) -> None:
        """Load the files again, for new handshakes; connections stay.

        Raises:
            CertificateUnusable: one of the files, but those of server names; nothing has changed.
        """
        for unusable in self._load():
            log.error("the certificate of a server name is not renewed: %s", unusable)

    def _load(self) -> list[CertificateUnusable]:
        """Load all files; returns what is wrong with those of server names.

        A name without a usable file keeps its context as long as the authorities are the same: behind a
        change it has the context of other names, so that nobody is accepted by an earlier authority.
        """
        options, authorities = self._options, b""
        default = self._context(options.certificate, options.key)
        default.sni_callback = self._choose
        if options.authorities is not None:
            authorities = _content(options.authorities)
        expiries = {options.certificate: _expiry(options.certificate)}
        named: dict[str, ssl.SSLContext] = {}
        unusable = []
        for name, file in options.names.items():
            asked = name.lower()
            try:
                context, expiry = self._context(file, None), _expiry(file)
            except CertificateUnusable as error:
                unusable.append(error)
                if asked in self._named and authorities == self._authorities:
                    named[asked], expiries[file] = self._named[asked], self.expiries[file]
            else:
                named[asked], expiries[file] = context, expiry
        self._default, self._named = default, named
        self._authorities, self.expiries = authorities, expiries
        return unusable

    def _context(self, certificate: Path, key: Path | None) -> ssl.SSLContext:
        options = self._options
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[options.version_min]
        context.set_ciphers(_CIPHERS)  # the suites of TLS 1.3 are fixed
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        context.verify_mode = _VERIFY_MODES[options.verification]
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ValueError) as error:
            which = str(certificate) if key is None else f"{certificate} and {key}"
            raise CertificateUnusable(f"TLS certificate {which}: {_described(error)}") from None
        if options.authorities is not None:
            try:
                context.load_verify_locations(options.authorities)
            except (OSError, ValueError) as error:
                what = f"TLS authorities {options.authorities}"
                raise CertificateUnusable(f"{what}: {_described(error)}") from None
        return context

    def _choose(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext
    ) -> None:
        asked = (name or "").lower()
        wildcard = "*." + asked.partition(".")[2]
        named = self._named.get(asked) or self._named.get(wildcard)
        if named is not None:
            connection.context = named


def warn_of_readers(keys: Iterable[Path]) -> None:
    """Log which of these files everybody may read, though there is a private key in them."""
    for file in keys:
        if others_may_read(file):
            log.warning("%s has a private key, and everybody on this machine may read it", file)


def _expiry(file: Path) -> datetime:
    try:
        return expires_at(_content(file).decode("ascii", errors="replace"))
    except ValueError as error:
        raise CertificateUnusable(f"TLS certificate {file}: {_described(error)}") from None


def _content(file: Path) -> bytes:
    try:
        return read_small(file, FILE_BYTES_MAX)
    except OSError as error:
        raise CertificateUnusable(f"TLS file {file}: {_described(error)}") from None


def _no_password() -> str:
    # Otherwise OpenSSL would ask at the terminal, and the broker would wait for an answer.
    raise ValueError("the key is encrypted; the broker has nobody to ask for its password")


def _described(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "no PEM that OpenSSL can read"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_VERSION = 0xA0  # context-specific, constructed, 0
_UTC_TIME = 0x17
_CENTURY_SPLIT = 50  # years from 50 on are of the last century


def expires_at(pem: str) -> datetime:
    """When the first certificate of a PEM file expires.

    Raises:
        ValueError: there is no certificate, or it is malformed.
    """
    begin = pem.find(_BEGIN)
    end = pem.find(_END, begin)
    if begin < 0 or end < 0:
        raise ValueError("no certificate")
    der = ssl.PEM_cert_to_DER_cert(pem[begin : end + len(_END)])
    _, certificate, _ = _element(der, 0)
    at = _element(der, certificate)[1]  # inside TBSCertificate
    if der[at] == _VERSION:
        at = _element(der, at)[2]
    for _ in ("serial", "algorithm", "issuer"):
        at = _element(der, at)[2]
    validity = _element(der, at)[1]
    tag, begin, end = _element(der, _element(der, validity)[2])
    text = der[begin:end].decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= _CENTURY_SPLIT else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Tag, begin and end of the content of the element at a place."""
    if at + 2 > len(der):
        raise ValueError("the certificate is cut off")
    tag, size = der[at], der[at + 1]
    begin = at + 2
    if size & 0x80:
        wide = size & 0x7F
        size = int.from_bytes(der[begin : begin + wide], "big")
        begin += wide
    if begin + size > len(der):
        raise ValueError("the certificate is cut off")
    return tag, begin, begin + size
