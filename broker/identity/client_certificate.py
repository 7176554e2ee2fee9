"""The user that a verified client certificate names: whom SASL EXTERNAL logs in."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

# As `ssl.SSLSocket.getpeercert` gives it: {"subject": ((("commonName", "app"),),), ...}.
Certificate = Mapping[str, Any]

# How RabbitMQ spells a distinguished name, which is RFC 4514's way; others keep their long name.
_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "givenName": "GIVENNAME",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "serialNumber": "SERIALNUMBER",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "surname": "SN",
    "title": "TITLE",
    "userId": "UID",
}
_ALTERNATIVE_NAMES = {"san_dns": "DNS", "san_email": "email", "san_uri": "URI"}
_ESCAPED = '"+,;<>\\'


def login_name(certificate: Certificate, source: str) -> str | None:
    """The user name in a certificate.

    Args:
        source: `distinguished_name`, `common_name`, `san_dns`, `san_email` or `san_uri`.

    Returns:
        None when the certificate has none there, or several that it could be.
    """
    if source == "distinguished_name":
        return distinguished_name(certificate) or None
    if source == "common_name":
        names = chain.from_iterable(certificate.get("subject", ()))
        found = [value for name, value in names if name == "commonName"]
    else:
        wanted = _ALTERNATIVE_NAMES[source]
        names = certificate.get("subjectAltName", ())
        found = [value for kind, value in names if kind == wanted]
    return found[0] if len(found) == 1 else None


def distinguished_name(certificate: Certificate, whose: str = "subject") -> str:
    """The subject, or issuer, most specific part first: `CN=app,OU=payments,O=Example,C=DE`.

    Source: RFC 4514, section 2.
    """
    return ",".join(
        "+".join(f"{_SHORT.get(name, name)}={_escaped(text)}" for name, text in relative)
        for relative in reversed(certificate.get(whose, ()))
    )


def _escaped(value: str) -> str:
    text = "".join("\\" + char if char in _ESCAPED else char for char in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    if value.endswith(" ") and len(value) > 1:
        text = text[:-1] + "\\ "
    return text
