"""The user that a client's certificate names."""

import pytest

from routelog.broker.identity.client_certificate import distinguished_name, login_name

CERTIFICATE = {
    "subject": (
        (("countryName", "DE"),),
        (("organizationName", "Example, Inc."),),
        (("organizationalUnitName", "payments"), ("userId", "17")),
        (("commonName", "app"),),
    ),
    "subjectAltName": (
        ("DNS", "app.example.com"),
        ("email", "app@example.com"),
        ("email", "app@example.org"),
    ),
}


def test_a_distinguished_name_is_spelled_as_rabbitmq_spells_it() -> None:
    assert distinguished_name(CERTIFICATE) == r"CN=app,OU=payments+UID=17,O=Example\, Inc.,C=DE"
    edges = {"subject": ((("commonName", "#a "),), (("1.2.3", " "),))}
    assert distinguished_name(edges) == r"1.2.3=\ ,CN=\#a\ "


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("distinguished_name", r"CN=app,OU=payments+UID=17,O=Example\, Inc.,C=DE"),
        ("common_name", "app"),
        ("san_dns", "app.example.com"),
        ("san_email", None),  # two of them
        ("san_uri", None),
    ],
)
def test_the_name_is_the_only_one_of_its_kind(source: str, name: str | None) -> None:
    assert login_name(CERTIFICATE, source) == name


@pytest.mark.parametrize("source", ["distinguished_name", "common_name", "san_dns"])
def test_a_certificate_without_names_names_nobody(source: str) -> None:
    assert login_name({}, source) is None


def test_several_common_names_name_nobody() -> None:
    several = {"subject": ((("commonName", "app"),), (("commonName", "guest"),))}
    assert login_name(several, "common_name") is None
