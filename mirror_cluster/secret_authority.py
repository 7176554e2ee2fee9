"""The authority of a managed etcd's certificates, which the cluster's secret is enough to make.

Each node makes the authority's key from the secret, signs a certificate of its own by it, and forgets it: etcd
lets in who shows one. So whoever knows the secret is let in, and nothing has to be distributed.

Source:
    RFC 5280, section 4.1.2.5 (certificates without an end).
"""

import os
import ssl
from datetime import UTC, datetime
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from routelog.mirror_cluster.node_tls import tls_context
from routelog.mirror_cluster.secret_key import secret_key

SEED_BYTES = 48  # half as many more than the key has: no key is likelier than another one
CURVE = ec.SECP256R1()
CURVE_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
# Who knows the secret makes another one at any time, so that an end would only be a way to fail: of a member
# that runs for years, or of a clock that is wrong.
NOT_BEFORE = datetime(1970, 1, 1, tzinfo=UTC)
NOT_AFTER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class SecretAuthority:
    """Makes the key and the certificates of an authority from a secret.

    Attributes:
        certificate: PEM, of the authority; each node makes one, of the same name and key.
        own: PEM, certificate and key of this node, for its member of etcd and for who asks one.
        client: for who asks.
        advice: what is wrong when one end does not accept the other.

    Args:
        cluster: its name: the same secret in another cluster makes another authority.
        host: where this node is dialed; an IP address or a name.

    Raises:
        ValueError: no certificate can have that host.
    """

    advice = "all nodes have the same cluster_secret, and so must who asks them"

    def __init__(self, secret: bytes, cluster: str, host: str) -> None:
        key = _key(secret, cluster)
        name = _name("RouteLog cluster")
        public = key.public_key()
        builder = (
            _builder(name, name, public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )
        self.certificate = builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
        self.own = _issued(key, name, host)
        self.client = tls_context(ssl.PROTOCOL_TLS_CLIENT)
        self.client.load_verify_locations(cadata=self.certificate.decode())
        _load(self.client, self.own)


def _key(secret: bytes, cluster: str) -> ec.EllipticCurvePrivateKey:
    seed = secret_key(secret, b"routelog etcd", cluster, SEED_BYTES)
    return ec.derive_private_key(1 + int.from_bytes(seed) % (CURVE_ORDER - 1), CURVE)


def _issued(authority: ec.EllipticCurvePrivateKey, issuer: x509.Name, host: str) -> bytes:
    """A certificate and its key, in one piece: they are never seen apart."""
    key = ec.generate_private_key(CURVE)
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _builder(_name("RouteLog node"), issuer, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName([_host(host)]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
            critical=False,
        )
    )
    certificate = builder.sign(authority, SHA256()).public_bytes(Encoding.PEM)
    return certificate + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        issuer, name, key, x509.random_serial_number(), NOT_BEFORE, NOT_AFTER
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _load(context: ssl.SSLContext, own: bytes) -> None:
    # OpenSSL takes a certificate of one's own from a file only; this one is in memory.
    file = os.memfd_create("routelog")
    try:
        os.write(file, own)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
