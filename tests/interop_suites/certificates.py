"""The certificates that py-amqp's tests expect in `t/certs`, which its source distribution leaves out."""

from __future__ import annotations

from pathlib import Path

import trustme


def write_certificates(folder: Path) -> None:
    """Write an authority, a server's and a client's certificate, and a client's of another authority."""
    folder.mkdir(exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca_certificate.pem"))
    server = authority.issue_cert("localhost", "127.0.0.1")
    server.private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    _write_client(folder, authority, "")
    _write_client(folder, trustme.CA(), "_broken")


def _write_client(folder: Path, authority: trustme.CA, suffix: str) -> None:
    client = authority.issue_cert("client@localhost", common_name="client")
    client.private_key_pem.write_to_path(str(folder / f"client_key{suffix}.pem"))
    client.cert_chain_pems[0].write_to_path(str(folder / f"client_certificate{suffix}.pem"))
