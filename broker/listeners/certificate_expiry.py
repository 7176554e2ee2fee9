"""The expiry of a certificate. Python's ssl has it only for the valid certificate of a peer.

```
Certificate   SEQUENCE  TBSCertificate  SEQUENCE  [0] version (may be left out)  serial  algorithm  issuer
                                                  validity  SEQUENCE  notBefore  notAfter
```

Source: RFC 5280, section 4.1; the encoding is DER, and a time is YYMMDDHHMMSSZ or YYYYMMDDHHMMSSZ.
"""

import ssl
from datetime import UTC, datetime

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
