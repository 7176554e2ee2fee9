"""Certificates of nodes, as files."""

from __future__ import annotations

from pathlib import Path

import trustme

from routelog.mirror_cluster.node_tls import TlsFiles


def node_files(authority: trustme.CA, folder: Path, *hosts: str) -> TlsFiles:
    """Issue a certificate for these hosts, by default the loopback address; the folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    files = TlsFiles(folder / "node.pem", folder / "node.key", folder / "authorities.pem")
    issued = authority.issue_cert(*(hosts or ("127.0.0.1",)))
    files.certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(files.key))
    files.key.chmod(0o600)
    authority.cert_pem.write_to_path(str(files.authorities))
    return files


def node_keys(files: TlsFiles) -> dict[str, str]:
    """The keys of the configuration that name them."""
    return {
        "cluster_tls_certificate": str(files.certificate),
        "cluster_tls_key": str(files.key),
        "cluster_tls_authorities": str(files.authorities),
    }


def node_environment(files: TlsFiles) -> dict[str, str]:
    """The same, as variables."""
    return {f"ROUTELOG_{key.upper()}": file for key, file in node_keys(files).items()}
